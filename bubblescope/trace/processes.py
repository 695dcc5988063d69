"""The processes that wrote a recording: each one's rank, stage, clock and slices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from bubblescope.trace import frames
from bubblescope.trace.facts import Facts, facts_in
from bubblescope.trace.frames import SPANS
from bubblescope.trace.part import DEVICE_CODES, HOST_RANGE, KERNEL, OTHER, Columns, Part, only
from bubblescope.trace.ranks import Place, place_in, rank_along

#: Slices further than this from the median of their document are no part of it.
DAY_NS = 24 * 3600 * 1_000_000_000


@dataclass(frozen=True)
class Document:
    """One document of the input: the file it stands in, and what was kept of it.

    facts: what it says of itself, where that is not in the part's fields.
    spans: spans of stages that it names, all of one device; that column is yet to be set.
    """

    file: str
    part: Part
    facts: Facts | None = None
    spans: pd.DataFrame = field(default_factory=lambda: frames.empty(SPANS))


@dataclass(frozen=True)
class Process:
    """A document and what is known of the process that wrote it.

    number: its position among the documents.
    lanes: pid and tid, as text, that the column `lane` refers to.
    columns: see `Part.columns`; times are absolute.
    lanes_are_devices: the trace names no categories, so that every lane is taken as a device.
    outliers: slices left out since they lie far away from all others.
    """

    number: int
    file: str
    part: Part
    facts: Facts
    lanes: tuple[tuple[str, str], ...]
    names: tuple[str, ...]
    columns: Columns
    rank: int | None
    stage: int | None
    lanes_are_devices: bool
    outliers: int
    spans: pd.DataFrame

    @property
    def middle_ns(self) -> int | None:
        """A time in the middle of what it recorded; None where it recorded no slice."""
        return int(np.median(self.columns["begin_ns"])) if len(self.columns["begin_ns"]) else None


def processes_in(documents: Sequence[Document]) -> list[Process]:
    """What wrote the documents, one process each."""
    places = [_place(document) for document in documents]
    tp_size = max((place.tp for place in places if place.tp is not None), default=0) + 1
    several = len({document.file for document in documents}) > 1
    processes = []
    for number, (document, place) in enumerate(zip(documents, places, strict=True)):
        process = _process(number, document, several)
        rank = next(
            (r for r in (process.facts.rank, place.rank, rank_along(place, tp_size)) if r is not None), None
        )
        stage = place.pp if process.facts.stage is None else process.facts.stage
        processes.append(replace(process, rank=rank, stage=stage))
    return processes


def _place(document: Document) -> Place:
    """What the file's name tells, and where it does not, the names that the processes bear."""
    place = place_in(document.file)
    for name in document.part.process_names.values():
        told = place_in(name)
        place = Place(*(b if a is None else a for a, b in zip(_axes(place), _axes(told), strict=True)))
    return place


def _axes(place: Place) -> tuple[int | None, ...]:
    return place.rank, place.pp, place.tp, place.dp


def _process(number: int, document: Document, one_of_several: bool) -> Process:
    part = document.part
    facts = document.facts or facts_in(part.fields)
    if one_of_several and facts.began_ns is not None:
        facts = replace(facts, base_ns=facts.began_ns)
    columns = part.columns()
    lanes_are_devices = part.uncategorised and not part.on_device
    columns["code"][columns["code"] == OTHER] = KERNEL if lanes_are_devices else HOST_RANGE
    near = _near(columns)
    columns = only(columns, near)
    for name in ("begin_ns", "end_ns"):
        columns[name] += facts.base_ns or 0
    shifted = {name: document.spans[name] + (facts.base_ns or 0) for name in ("begin_ns", "end_ns")}
    return Process(
        number=number,
        file=document.file,
        part=part,
        facts=facts,
        lanes=tuple((str(pid), str(tid)) for pid, tid in part.lanes),
        names=tuple("" if name is None else str(name) for name in part.names),
        columns=columns,
        rank=None,
        stage=None,
        lanes_are_devices=lanes_are_devices,
        outliers=int((~near).sum()),
        spans=document.spans.assign(**shifted),
    )


def _near(columns: Columns) -> np.ndarray[Any, Any]:
    """Which slices lie within a day of the median: a slice at time 0 would stretch the window to 1970."""
    begins = columns["begin_ns"]
    of_device = begins[columns["code"] < DEVICE_CODES]
    if not len(begins):
        return np.ones(0, dtype=bool)
    median = np.median(of_device if len(of_device) else begins)
    near: np.ndarray[Any, Any] = (begins > median - DAY_NS) & (columns["end_ns"] < median + DAY_NS)
    return near
