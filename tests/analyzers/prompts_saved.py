"""A recording of llama-server, which saves the KV cache of the last prompt before it begins the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from bubblescope.trace import frames
from bubblescope.trace.frames import REQUESTS, UNKNOWN
from bubblescope.trace.model import Trace
from tests.analyzers.spans import Span, recording

MS = 1_000_000
SERVER = ("/opt/bin/llama-server", "-m", "model.gguf")


def copied(kind: str, begin: float, end: float, size: int) -> Span:
    """A state that is saved or restored, in milliseconds."""
    return Span(kind, 0, round(begin * MS), round(end * MS), UNKNOWN, bytes=size, phase="unknown")


def prompt(number: int, at: int, pause: int = 0) -> list[Span]:
    """Two ubatches over two devices, 10 ms on each, from `at` on: 30 ms, and a pause between the ubatches."""
    spans = []
    for ubatch in range(2):
        begin = at + ubatch * (10 + pause)
        shared = {"microbatch": 2 * number + ubatch, "tokens": 512, "prefix": 512 * ubatch}
        for stage in range(2):
            on = (begin + 10 * stage, begin + 10 * stage + 10)
            spans.append(Span("forward", stage, on[0] * MS, on[1] * MS, clock="device", **shared))
    return spans


#: The first prompt is computed from 60 to 90, after 40 ms of saving, the second from 120 to 150, after 20.
SAVED = (copied("save", 10, 50, 4_000_000_000), copied("save", 95, 115, 2_000_000_000))


def served(
    copies: Sequence[Span],
    command: tuple[str, ...] = SERVER,
    pause: int = 0,
    window: tuple[int, int] = (0, 151),
    requests: int = 2,
) -> Trace:
    """Two prompts that arrive at 0 and at 91, and whose first tokens come at 91 and at 151.

    requests: with more than two the others arrive and get their first tokens with the second.
    """
    facts = {"llama_pipelining": True, "llama_copies": 4}
    trace = recording([*copies, *prompt(0, 60, pause), *prompt(1, 120)], 2, facts)
    end = pd.array([91 * MS] + [151 * MS] * (requests - 1), dtype="Int64")
    asked = {
        "request": [str(number) for number in range(requests)],
        "arrival_ns": [0] + [91 * MS] * (requests - 1), "first_token_ns": end, "end_ns": end,
        "prompt_tokens": [1024] * requests, "output_tokens": [1] * requests, "warmup": [False] * requests,
    }  # fmt: skip
    run = replace(trace.run, command=command, window_ns=(window[0] * MS, window[1] * MS))
    return replace(trace, run=run, requests=frames.table(REQUESTS, asked))
