"""The spans of stages again, out of the names that collectors give to their NVTX ranges.

docs/nsight.md says what a name is made of. A range is timed by the host, which runs ahead of its device:
the span is what the device did of what was launched within.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from bubblescope.trace import frames
from bubblescope.trace.frames import PHASES, SPAN_KINDS, SPANS, UNKNOWN
from bubblescope.trace.nsys.database import Longs
from bubblescope.trace.nsys.launches import innermost
from bubblescope.trace.part import Columns

#: Spans whose device work is communication; that of all others is not.
MOVES = ("send", "recv")
_NAME = re.compile(r"(?P<kind>[a-z]+) (?P<fields>stage=[0-9]{1,9}(?: [a-z_]+=[\w-]{1,40})*)")
_NUMBER = re.compile(r"\d{1,9}", re.ASCII)
_LAYERS = re.compile(r"(\d{1,6})-(\d{1,6})", re.ASCII)
_NUMBERS = ("stage", "rank", "step", "microbatch", "tokens", "prefix", "peer", "bytes")
_NOTHING: dict[str, Any] = {
    **dict.fromkeys((*_NUMBERS, "layer_begin", "layer_end"), UNKNOWN), "phase": "unknown"
}  # fmt: skip

#: A span as its name tells it: kind, phase and numbers, with the rank of its process.
Told = Mapping[str, Any]


def told_by(name: str) -> Told | None:
    """What the name of a range tells of a span; None for any other name."""
    match = _NAME.fullmatch(name)
    if match is None or match["kind"] not in SPAN_KINDS:
        return None
    fields = dict(field.split("=", 1) for field in match["fields"].split(" "))
    told: dict[str, Any] = {**_NOTHING, "kind": match["kind"]}
    told.update(
        {key: int(value) for key, value in fields.items() if key in _NUMBERS and _NUMBER.fullmatch(value)}
    )
    if layers := _LAYERS.fullmatch(fields.get("layers", "")):
        told.update(layer_begin=int(layers[1]), layer_end=int(layers[2]))
    if fields.get("phase") in PHASES:
        told["phase"] = fields["phase"]
    return told


def spans(
    ranges: Columns, told: Sequence[Told], work: Columns, communication: Longs
) -> tuple[pd.DataFrame, Longs]:
    """The spans table, its `device` yet to be set, and for each piece of work the range whose span it is
    part of, or -1.

    told: what each of the ranges tells. communication: the rows of the work that are.
    """
    moves = np.array([each["kind"] in MOVES for each in told], dtype=bool)
    owner = np.full(len(work["at"]), -1)
    others = np.setdiff1d(np.arange(len(owner)), communication)
    for rows, own in ((communication, np.flatnonzero(moves)), (others, np.flatnonzero(~moves))):
        some = {name: column[own] for name, column in ranges.items()}
        found, _ = innermost(some, work["at"][rows], work["thread"][rows])
        inside = found >= 0
        owner[rows[inside]] = own[found[inside]]
    begin, end = ranges["begin_ns"].copy(), ranges["end_ns"].copy()
    rows = np.flatnonzero(owner >= 0)
    worked = np.unique(owner[rows])
    # A receive begins when it is asked for, also where the host waits before it launches it.
    asked = np.array([each["kind"] == "recv" for each in told], dtype=bool)
    begin[worked] = np.where(asked[worked], begin[worked], np.iinfo(np.int64).max)
    end[worked] = np.iinfo(np.int64).min
    np.minimum.at(begin, owner[rows], work["begin_ns"][rows])
    np.maximum.at(end, owner[rows], work["end_ns"][rows])
    clock = np.full(len(told), "host", dtype=object)
    clock[worked] = "device"
    columns = {name: [each[name] for each in told] for name in SPANS.columns if name in (*_NOTHING, "kind")}
    table = frames.table(
        SPANS,
        {**columns, "device": [0] * len(told), "begin_ns": begin, "end_ns": end, "clock": clock},
    )
    return table.sort_values("begin_ns", kind="stable", ignore_index=True), owner
