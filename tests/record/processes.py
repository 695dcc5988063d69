"""Processes as the spool reader gives them, written out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bubblescope.collectors._bubblescope_inject import layout
from bubblescope.record.spool import LOST, DeclaredStage, Process, empty_slots


def declared(
    stage: int, rank: int = -1, layers: tuple[int, int] = (-1, -1), device: str = "", ordinal: int = -1
) -> DeclaredStage:
    return DeclaredStage(stage, rank, ordinal, layers, device, "", -1)


def slots(kind: int, *rows: dict[str, Any]) -> Any:
    """Slots with these fields; what is not named is -1, or 0 where that does not fit."""
    made = empty_slots(kind, len(rows))
    for name in made.dtype.names:
        if np.issubdtype(made.dtype[name], np.signedinteger):
            made[name] = -1
    for slot, row in zip(made, rows, strict=True):
        for name, value in row.items():
            slot[name] = value
    return made


def span(
    kind: str, begin: int, end: int, stage: int = 0, microbatch: int = 0, peer: int = -1
) -> dict[str, int]:
    return {
        "kind": layout.KINDS.index(kind), "begin_ns": begin, "end_ns": end, "stage": stage, "clock": 1,
        "microbatch": microbatch, "peer": peer,
    }  # fmt: skip


def process(
    stages: Sequence[DeclaredStage] = (),
    spans: Sequence[dict[str, int]] = (),
    open_spans: Sequence[dict[str, int]] = (),
    requests: Sequence[dict[str, int]] = (),
    instants: Sequence[dict[str, int]] = (),
    samples: Sequence[dict[str, Any]] = (),
    activities: Sequence[dict[str, int]] = (),
    launches: Sequence[dict[str, int]] = (),
    cards: Sequence[dict[str, int]] = (),
    texts: Sequence[str] = (),
    facts: dict[str, tuple[int, str]] | None = None,
    begins_ns: int | None = None,
    running: bool = False,
    clock: str = "boot",
    host: str = "host",
    pid: int = 1,
    **lost: int,
) -> Process:
    return Process(
        pid=pid,
        host=host,
        clock=clock,
        wall_offset_ns=10**18,
        begins_ns=begins_ns,
        running=running,
        spans=slots(layout.SPAN, *spans),
        open_spans=slots(layout.SPAN, *open_spans),
        requests=slots(layout.REQUEST, *requests),
        instants=slots(layout.INSTANT, *instants),
        samples=slots(layout.COUNTER, *samples),
        texts=tuple(texts),
        stages=dict(enumerate(stages)),
        facts=facts or {},
        lost={**dict.fromkeys(LOST, 0), **lost},
        activities=slots(layout.ACTIVITY, *activities),
        launches=slots(layout.LAUNCHES, *launches),
        cards=slots(layout.CARD, *cards),
    )
