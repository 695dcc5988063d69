"""Recordings of llama.cpp written down ubatch by ubatch, in milliseconds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bubblescope.analyzers.analysis import analyze
from bubblescope.analyzers.results import Finding
from bubblescope.trace.frames import UNKNOWN
from tests.analyzers.spans import Span, recording

MS = 1_000_000
#: The bytes of a ubatch's embeddings.
EMBEDDINGS = 4096
PIPELINED: Mapping[str, Any] = {"llama_pipelining": True, "llama_copies": 4, "chunk_tokens": 512}


def ubatch(
    number: int,
    at: float,
    forwards: Sequence[tuple[float, float]],
    schedule: float = 0,
    embed: float = 0,
    drained: float = 0,
    waited: float = 0,
    copies: Sequence[tuple[float, int]] = (),
    split: float = 0,
    lookup: bool = True,
    tokens: int = 512,
) -> Iterator[Span]:
    """One ubatch, whose host begins on it `at` and then, one after the other, takes the given times.

    forwards: begin and end per stage. drained: waiting for all devices before it is begun; waited: for
    devices after it. lookup: whether what is embedded are the embeddings, or only positions and masks.
    copies: time and bytes of each to the first device. split: on the CPU, between devices.
    """
    shared = {"microbatch": number, "tokens": tokens, "prefix": number * tokens}

    if drained:
        # The host still counts that as the ubatch before.
        yield Span("sync", 0, round((at - drained) * MS), round(at * MS), number - 1)

    def host(kind: str, taken: float, **more: int) -> Iterator[Span]:
        nonlocal at
        if taken:
            yield Span(kind, 0, round(at * MS), round((at + taken) * MS), **{**shared, **more})
        at += taken

    yield from host("schedule", schedule)
    yield from host("embed", embed, bytes=EMBEDDINGS if lookup else UNKNOWN)
    for taken, size in copies:
        yield from host("copy", taken, bytes=size)
    yield from host("split", split)
    yield from host("sync", waited)
    for stage, (begin, end) in enumerate(forwards):
        yield Span("forward", stage, round(begin * MS), round(end * MS), clock="device", **shared)


def found(
    spans: Sequence[Span], stages: int, facts: Mapping[str, Any], partition: tuple[int, ...] | None = None
) -> dict[str, Finding]:
    """The findings of a recording by their id."""
    trace = recording(spans, stages, {"phases": "host", **facts}, partition=partition)
    return {each.id: each for each in analyze(trace).findings}
