"""Records what an engine does, from inside it, for Bubblescope.

Standard library only; inert unless the environment names a spool folder (`bubblescope record`
does that); never raises into the engine and never waits. docs/instrumenting.md shows how to use
it, docs/spool-format.md what it writes.
"""

from __future__ import annotations

import json
from time import monotonic_ns

from . import recording
from .layout import (
    ARRIVED,
    ENDED,
    FIRST_TOKEN,
    KINDS,
    LONGEST_NAME,
    LONGEST_TEXT,
    PHASES,
    REQUEST,
    REQUEST_SLOT,
    UNKNOWN,
)
from .spans import Span, Stage

__all__ = [
    "KINDS",
    "PHASES",
    "UNKNOWN",
    "Span",
    "Stage",
    "fact",
    "request_arrived",
    "request_ended",
    "request_first_token",
    "stage",
]


def stage(
    number: int, *, layers: tuple[int, int] = (UNKNOWN, UNKNOWN), rank: int = UNKNOWN, ordinal: int = UNKNOWN,
    device: str = "", capability: str = "", memory_bytes: int = UNKNOWN,
) -> Stage:  # fmt: skip
    """Declare a stage of the pipeline, whose work this process does or schedules.

    number: its position in the pipeline, from 0.
    layers: the layers it holds, half open.
    rank: the engine's number of the process that drives the device.
    ordinal, device, capability, memory_bytes: the device's number on its host, its name as the
        vendor writes it, its CUDA compute capability, its memory.
    """
    declared = UNKNOWN  # as the number of a stage it is refused, and counted, with every event
    writer = recording.writer
    try:
        begin, end = layers
    except Exception as error:
        recording.lost(error)
        begin = end = UNKNOWN
    if writer is not None:
        try:
            numbers = (memory_bytes, number, rank, ordinal, begin, end)
            declared = writer.add_stage(numbers, str(device), str(capability))
        except Exception as error:
            recording.lost(error)
    return Stage(declared, (begin, end), number, rank)


def fact(name: str, value: object) -> None:
    """Write down something about the run: any name, any JSON value; the last one of a name counts.

    These names are known: "engine", "engine_version", "partition" (layers per stage), "model" (an
    object), "world_size", "window_ns" (begin and end of the measured part, CLOCK_MONOTONIC).
    """
    writer = recording.writer
    if writer is None:
        return
    try:
        text = json.dumps(value, allow_nan=False)
        if len(text) > LONGEST_TEXT:
            raise ValueError("a fact is at most 64 KiB of JSON")
        writer.add_fact(str(name), text)
    except Exception as error:
        recording.lost(error)


def request_arrived(
    request: str, *, prompt_tokens: int = UNKNOWN, warmup: bool = False, at_ns: int | None = None
) -> None:
    """A request came in, now or `at_ns`. `request` names it in whatever process speaks of it."""
    _request(request, ARRIVED, prompt_tokens, warmup, at_ns)


def request_first_token(request: str) -> None:
    """The request's first token is there."""
    _request(request, FIRST_TOKEN, UNKNOWN, False)


def request_ended(request: str, *, output_tokens: int = UNKNOWN) -> None:
    """The request is answered, or given up."""
    _request(request, ENDED, output_tokens, False)


def _request(request: str, event: int, tokens: int, warmup: bool, at_ns: int | None = None) -> None:
    time_ns = monotonic_ns() if at_ns is None else at_ns
    recording.write(
        lambda file: file.put(
            REQUEST_SLOT, time_ns, tokens, file.text(str(request), LONGEST_NAME), event, warmup, REQUEST
        )
    )
