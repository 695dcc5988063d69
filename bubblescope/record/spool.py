"""Reads spool files (docs/spool-format.md): what each process wrote, checked slot by slot.

Files may be torn, half written, still written to, or hostile: what cannot be read is counted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bubblescope.collectors._bubblescope_inject import layout
from bubblescope.collectors._bubblescope_inject.room import entries, in_use
from bubblescope.errors import NotATraceError
from bubblescope.trace.frames import TIME_LIMIT

Slots = npt.NDArray[np.void]
#: Called with the files read so far and in all.
Progress = Callable[[int, int], None]

_TAIL = [("type", "u1"), ("state", "u1")]
_SPAN = np.dtype([
    ("step", "<i8"), ("microbatch", "<i8"), ("bytes", "<i8"), ("begin_ns", "<i8"), ("end_ns", "<i8"),
    ("tokens", "<i4"), ("prefix", "<i4"), ("layer_begin", "<i2"), ("layer_end", "<i2"), ("stage", "<u2"),
    ("peer", "<i2"), ("kind", "u1"), ("phase", "u1"), ("clock", "u1"), ("", "V1"), ("lead", "<u2"),
    *_TAIL,
])  # fmt: skip
_STAGE = np.dtype([
    ("memory_bytes", "<i8"), ("stage", "<i4"), ("rank", "<i4"), ("ordinal", "<i4"), ("layer_begin", "<i4"),
    ("layer_end", "<i4"), ("device", "<u4"), ("capability", "<u4"), ("number", "<u2"), ("", "V24"), *_TAIL,
])  # fmt: skip
_TEXT = np.dtype(
    [
        ("data", f"V{layout.TEXT_PIECE}"),
        ("text", "<u4"),
        ("length", "<u2"),
        ("piece", "<u2"),
        ("", "V2"),
        *_TAIL,
    ]
)
_FACT = np.dtype([("time_ns", "<i8"), ("name", "<u4"), ("value", "<u4"), ("", "V46"), *_TAIL])
_REQUEST = np.dtype([
    ("time_ns", "<i8"), ("tokens", "<i8"), ("request", "<u4"), ("event", "u1"), ("warmup", "u1"), ("", "V40"),
    *_TAIL,
])  # fmt: skip
_INSTANT = np.dtype([("time_ns", "<i8"), ("name", "<u4"), ("stage", "<u2"), ("", "V48"), *_TAIL])
_COUNTER = np.dtype(
    [("time_ns", "<i8"), ("value", "<f8"), ("name", "<u4"), ("stage", "<u2"), ("", "V40"), *_TAIL]
)
_ACTIVITY = np.dtype([
    ("begin_ns", "<i8"), ("end_ns", "<i8"), ("bytes", "<i8"), ("correlation", "<u4"), ("context", "<u4"),
    ("stream", "<u4"), ("graph", "<u4"), ("name", "<u4"), ("peer", "<i4"), ("device", "<u2"), ("work", "u1"),
    ("copy_kind", "u1"), ("", "V10"), *_TAIL,
])  # fmt: skip
_LAUNCHES = np.dtype([
    ("step", "<i8"), ("microbatch", "<i8"), ("after", "<u4"), ("before", "<u4"), ("stage", "<u2"),
    ("peer", "<i2"), ("layer_begin", "<i2"), ("layer_end", "<i2"), ("kind", "u1"), ("", "V29"), *_TAIL,
])  # fmt: skip
_CARD = np.dtype([
    ("time_ns", "<i8"), ("memory", "<i8"), ("nvlink_tx", "<i8"), ("nvlink_rx", "<i8"), ("power", "<i4"),
    ("pcie_tx", "<i4"), ("pcie_rx", "<i4"), ("reasons", "<i4"), ("sm_clock", "<i2"), ("memory_clock", "<i2"),
    ("temperature", "<i2"), ("utilization", "<i2"), ("card", "<u2"), ("", "V4"), *_TAIL,
])  # fmt: skip
_DTYPES = {
    layout.SPAN: _SPAN, layout.STAGE: _STAGE, layout.TEXT: _TEXT, layout.FACT: _FACT,
    layout.REQUEST: _REQUEST, layout.INSTANT: _INSTANT, layout.COUNTER: _COUNTER,
    layout.ACTIVITY: _ACTIVITY, layout.LAUNCHES: _LAUNCHES, layout.CARD: _CARD,
}  # fmt: skip
#: The events that come in numbers, with the field that is the number of a text.
_EVENTS = {
    layout.SPAN: None, layout.REQUEST: "request", layout.INSTANT: "name", layout.COUNTER: "name",
    layout.ACTIVITY: "name", layout.LAUNCHES: None, layout.CARD: None,
}  # fmt: skip
#: What an activity is, by its number.
WORKS = ("kernel", "copy", "memset")
#: Fields that are positions in these.
_NAMED = {"kind": layout.KINDS, "phase": layout.PHASES, "clock": layout.CLOCKS, "work": WORKS}
_LATEST_NS = TIME_LIMIT


def empty_slots(kind: int, count: int) -> Slots:
    """Slots of a type, all zero."""
    return np.zeros(count, _DTYPES[kind])


class NothingRecordedError(NotATraceError):
    """A spool folder in which no process wrote an event."""


class DeclaredStage(NamedTuple):
    """A stage as its process declared it; -1 and "" for what it did not tell."""

    stage: int
    rank: int
    ordinal: int
    layers: tuple[int, int]
    device: str
    capability: str
    memory_bytes: int


@dataclass(frozen=True)
class Process:
    """What one process wrote.

    clock: names the clock of its times; one for all processes of a host.
    wall_offset_ns: what to add to its times to get wall-clock time.
    begins_ns: its events from before this time were dropped; None if none were.
    running: it still had its last file open.
    spans, open_spans, requests, instants, samples, activities, launches, cards: slots of these types in
        the order in which they were begun. Their `stage` is a number of `stages`, their `name` or
        `request` the position of a text in `texts`.
    facts: JSON texts with the time they were written.
    lost: how many events are missing, by reason (`LOST`).
    """

    pid: int
    host: str
    clock: str
    wall_offset_ns: int
    begins_ns: int | None
    running: bool
    spans: Slots
    open_spans: Slots
    requests: Slots
    instants: Slots
    samples: Slots
    texts: tuple[str, ...]
    stages: Mapping[int, DeclaredStage]
    facts: Mapping[str, tuple[int, str]]
    lost: Mapping[str, int]
    activities: Slots
    launches: Slots
    cards: Slots


#: Why an event is missing: dropped to keep the spool within its bounds, no room on the disk,
#: arguments that do not fit, torn by a kill, of a type that this version does not know, damaged.
LOST = ("dropped", "unwritten", "refused", "torn", "unknown", "damaged")


class _Header(NamedTuple):
    version: int
    slot: int
    size: int
    pid: int
    number: int
    created_ns: int
    created_wall_ns: int
    dropped: int
    unwritten: int
    refused: int
    clock: str
    host: str


def read_spool(folder: str, progress: Progress | None = None) -> tuple[list[Process], list[str]]:
    """The processes that wrote into a spool folder, and the files that are none or are damaged.

    Raises NothingRecordedError if the folder holds no spool file, NotATraceError if one is of a newer
    version.
    """
    files: dict[str, list[str]] = {}
    for entry in entries(folder):
        files.setdefault(entry.process, []).append(entry.path)
    if not files:
        raise NothingRecordedError(f"{folder}: no spool files there, so there is nothing to merge")
    total = sum(map(len, files.values()))
    done = 0
    processes, unreadable = [], []
    for paths in files.values():
        building = None
        for path in paths:
            header, slots = _opened(path)
            if header is None:
                unreadable.append(path)
            else:
                building = building or _Building(header)
                building.add(header, slots)
            done += 1
            if progress is not None:
                progress(done, total)
        if building is not None:
            processes.append(building.process(running=in_use(paths[-1]) and _exists(building.first.pid)))
    return processes, unreadable


def _exists(pid: int) -> bool:
    """Whether there is such a process; a file may also be in use by forked children of one that ended."""
    return os.path.exists(f"/proc/{pid}")


def _opened(path: str) -> tuple[_Header | None, npt.NDArray[np.uint8]]:
    """The header and the slots, one a row, of a file; None for what is no spool file."""
    no_slots = np.empty((0, layout.SLOT), np.uint8)
    try:
        data = np.fromfile(path, np.uint8, count=layout.LARGEST_FILE)
    except OSError:
        return None, no_slots
    if len(data) < layout.HEADER_SIZE or data[: len(layout.MAGIC)].tobytes() != layout.MAGIC:
        return None, no_slots
    fields = layout.HEADER.unpack_from(data.data)
    clock, host = (_text(name.rstrip(b"\0")) for name in fields[-2:])
    header = _Header._make((*fields[1:-2], clock, host))
    if header.version > layout.VERSION:
        raise NotATraceError(
            f"{path}: written in version {header.version} of the spool format, this reads {layout.VERSION}; "
            "merge it with the Bubblescope that recorded it"
        )
    if header.slot != layout.SLOT or header.size != layout.HEADER_SIZE:
        return None, no_slots
    slots = data[layout.HEADER_SIZE :]
    return header, slots[: len(slots) // layout.SLOT * layout.SLOT].reshape(-1, layout.SLOT)


class _Building:
    """Collects the files of one process, oldest first."""

    def __init__(self, first: _Header) -> None:
        self.first = self.last = first
        self.slots: dict[int, list[Slots]] = {kind: [] for kind in _EVENTS}
        self.open_spans: list[Slots] = []
        self.texts: dict[str, int] = {}
        self.stages: dict[int, DeclaredStage] = {}
        self.facts: dict[str, tuple[int, str]] = {}
        self.lost = dict.fromkeys(LOST, 0)

    def add(self, header: _Header, slots: npt.NDArray[np.uint8]) -> None:
        self.last = header
        types, states = slots[:, -2], slots[:, -1]
        complete = states == layout.COMPLETE
        self.lost["torn"] += _torn(slots)
        self.lost["damaged"] += int((states > layout.COMPLETE).sum())
        self.lost["unknown"] += int((complete & (types > layout.CARD)).sum())

        def of_type(kind: int, state: npt.NDArray[np.bool_] = complete) -> Slots:
            return _rows(slots[state & (types == kind)], _DTYPES[kind])

        texts = _texts(of_type(layout.TEXT))
        for row in of_type(layout.STAGE):
            self.stages[int(row["number"])] = _declared(row, texts)
        for row in of_type(layout.FACT):
            name, value = texts.get(int(row["name"])), texts.get(int(row["value"]))
            if name is not None and value is not None:
                self.facts[name] = (int(row["time_ns"]), value)
        self.open_spans.append(self._checked(layout.SPAN, of_type(layout.SPAN, states == layout.OPEN)))
        for kind, text_field in _EVENTS.items():
            rows = self._checked(kind, of_type(kind))
            self.slots[kind].append(self._named(rows, text_field, texts) if text_field else rows)

    def process(self, running: bool) -> Process:
        slots = {kind: np.concatenate(rows) for kind, rows in self.slots.items()}
        first, last = self.first, self.last
        self.lost |= {"dropped": last.dropped, "unwritten": last.unwritten, "refused": last.refused}
        return Process(
            pid=first.pid,
            host=first.host,
            clock=first.clock or first.host,
            wall_offset_ns=first.created_wall_ns - first.created_ns,
            begins_ns=first.created_ns if first.number > 0 else None,
            running=running,
            spans=slots[layout.SPAN],
            open_spans=np.concatenate(self.open_spans),
            requests=slots[layout.REQUEST],
            instants=slots[layout.INSTANT],
            samples=slots[layout.COUNTER],
            texts=tuple(self.texts),
            stages=self.stages,
            facts=self.facts,
            lost=self.lost,
            activities=slots[layout.ACTIVITY],
            launches=slots[layout.LAUNCHES],
            cards=slots[layout.CARD],
        )

    def _checked(self, kind: int, rows: Slots) -> Slots:
        """The rows whose values can be; the others are counted as damaged."""
        good = np.ones(len(rows), bool)
        fields = _DTYPES[kind].names or ()
        for field in {"time_ns", "begin_ns", "end_ns"}.intersection(fields):
            good &= (rows[field] >= 0) & (rows[field] <= _LATEST_NS)
        if "stage" in fields:
            good &= np.isin(rows["stage"], list(self.stages))
        if "end_ns" in fields:
            finished = rows["state"] == layout.COMPLETE
            good &= ~finished | (rows["end_ns"] >= rows["begin_ns"])
        for field, names in _NAMED.items():
            if field in fields:
                good &= rows[field] < len(names)
        self.lost["damaged"] += int((~good).sum())
        kept: Slots = rows[good]
        return kept

    def _named(self, rows: Slots, field: str, texts: Mapping[int, str]) -> Slots:
        """The rows with the numbers of their texts replaced by positions in `self.texts`."""
        numbers, inverse = np.unique(rows[field], return_inverse=True)
        known = np.array([number in texts for number in numbers.tolist()], bool)[inverse]
        positions = [self.texts.setdefault(texts.get(n, ""), len(self.texts)) for n in numbers.tolist()]
        named = rows.copy()
        named[field] = np.array(positions, np.uint32)[inverse]
        self.lost["damaged"] += int((~known).sum())
        kept: Slots = named[known]
        return kept


def _torn(slots: npt.NDArray[np.uint8]) -> int:
    """How many slots were begun and not finished: they hold something, or later slots do."""
    empty = slots[:, -1] == layout.EMPTY
    used = np.flatnonzero(~empty)
    before_the_last = empty[: used[-1]].sum() if len(used) else 0
    after = slots[used[-1] + 1 if len(used) else 0 :]
    return int(before_the_last + after.any(axis=1).sum())


def _texts(rows: Slots) -> dict[int, str]:
    """The texts that are there whole, by number."""
    pieces: dict[int, dict[int, bytes]] = {}
    lengths: dict[int, int] = {}
    for row in rows:
        number = int(row["text"])
        pieces.setdefault(number, {})[int(row["piece"])] = row["data"].tobytes()
        lengths[number] = int(row["length"])
    texts = {}
    for number, of_text in pieces.items():
        data = b"".join(of_text[piece] for piece in sorted(of_text))
        if len(of_text) == max(of_text) + 1 and len(data) >= lengths[number]:
            texts[number] = _text(data[: lengths[number]])
    return texts


def _declared(row: np.void, texts: Mapping[int, str]) -> DeclaredStage:
    return DeclaredStage(
        stage=int(row["stage"]),
        rank=int(row["rank"]),
        ordinal=int(row["ordinal"]),
        layers=(int(row["layer_begin"]), int(row["layer_end"])),
        device=texts.get(int(row["device"]), ""),
        capability=texts.get(int(row["capability"]), ""),
        memory_bytes=int(row["memory_bytes"]),
    )


def _rows(slots: npt.NDArray[np.uint8], dtype: np.dtype[Any]) -> Slots:
    return np.frombuffer(np.ascontiguousarray(slots).data, dtype)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
