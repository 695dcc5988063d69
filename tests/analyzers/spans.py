"""Spans written down one by one, for tests whose numbers are computed by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from bubblescope.trace import frames
from bubblescope.trace.frames import SPANS, UNKNOWN
from bubblescope.trace.model import Device, Run, Trace


@dataclass(frozen=True)
class Span:
    """One span of a stage whose device has the stage's number."""

    kind: str
    stage: int
    begin: int
    end: int
    microbatch: int = 0
    tokens: int = UNKNOWN
    prefix: int = UNKNOWN
    bytes: int = UNKNOWN
    peer: int = UNKNOWN
    clock: str = "host"
    phase: str = "prefill"


def spans_of(spans: Sequence[Span]) -> pd.DataFrame:
    """The table of these spans, in order of their begin."""
    rows = sorted(spans, key=lambda span: span.begin)
    columns: dict[str, list[Any]] = {
        name: [getattr(row, name) for row in rows]
        for name in ("kind", "stage", "microbatch", "tokens", "prefix", "bytes", "peer", "clock", "phase")
    }
    absent = [UNKNOWN] * len(rows)
    return frames.table(
        SPANS,
        {
            **columns,
            "device": columns["stage"],
            "step": columns["microbatch"],
            "layer_begin": absent,
            "layer_end": absent,
            "begin_ns": [row.begin for row in rows],
            "end_ns": [row.end for row in rows],
        },
    )


def recording(
    spans: Sequence[Span],
    stages: int,
    facts: Mapping[str, Any],
    engine: str = "llama.cpp",
    partition: tuple[int, ...] | None = None,
) -> Trace:
    """A recording of stages whose devices are named FAKE0, FAKE1, ..."""
    devices = tuple(
        Device(rank=0, stage=stage, ordinal=stage, name=f"FAKE{stage}") for stage in range(stages)
    )
    return Trace(Run(devices=devices, engine=engine, facts=facts, partition=partition), spans=spans_of(spans))
