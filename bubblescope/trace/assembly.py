"""From the processes that wrote a recording to one recording."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from bubblescope.trace import communication, frames
from bubblescope.trace.communication import Transfer
from bubblescope.trace.frames import CATEGORIES, SPAN_KINDS, SPANS, TRACKS, UNKNOWN
from bubblescope.trace.lanes import Lane, lanes_of, main_device
from bubblescope.trace.model import Clock, Device, Run, Trace
from bubblescope.trace.part import DEVICE_RANGE, HOST_RANGE, KERNEL, Columns
from bubblescope.trace.processes import DAY_NS, Document, Process, processes_in
from bubblescope.trace.shortfalls import shortfalls

#: A kernel may begin this much before the range that names it, since both are rounded.
_ROUNDING_NS = 1000

_ENGINES = {
    "sglang": re.compile(r"\bsglang\b|step\[\w+ bs=\d+|get_next_batch_to_run\Z|\bsgl_"),
    "vllm": re.compile(r"\bvllm\b|execute_\w*context_\d+\(.*\)_generation_\d+\(", re.IGNORECASE),
}


@dataclass(frozen=True)
class _Placed:
    """A process's slices with the numbers that the whole recording gives to tracks and transfers."""

    columns: Columns
    tracks: np.ndarray[Any, Any]
    names: tuple[str, ...]
    transfers: np.ndarray[Any, Any]
    table: tuple[Transfer, ...]


@dataclass
class _Lanes:
    """Devices and lanes of all processes, in order of appearance."""

    devices: dict[Hashable, Device] = field(default_factory=dict)
    lanes: dict[Hashable, Lane] = field(default_factory=dict)
    numbers: dict[Hashable, int] = field(default_factory=dict)

    def add(self, lane: Lane) -> int:
        """The lane's number, which is its row in the tracks table."""
        self.devices.setdefault(lane.device_key, lane.device)
        self.lanes.setdefault(lane.key, lane)
        return self.numbers.setdefault(lane.key, len(self.numbers))


def assembled(documents: Sequence[Document]) -> Trace:
    """One recording out of what the processes wrote, with everything said that it lacks."""
    processes = processes_in(documents)
    lanes = _Lanes()
    groups = {group.name: group.ranks for process in processes for group in process.facts.groups}
    placed = [_placed(process, lanes, groups) for process in processes]
    ordered = sorted(lanes.devices.items(), key=lambda entry: _order(entry[1]))
    positions = {key: position for position, (key, _) in enumerate(ordered)}
    spans = _spans(processes, positions)
    run = Run(
        devices=tuple(device for _, device in ordered),
        engine=_engine(processes),
        world_size=max((p.facts.world_size for p in processes if p.facts.world_size), default=None),
        groups=tuple(dict.fromkeys(group for process in processes for group in process.facts.groups)),
        clock=_clock(processes),
    )
    trace = Trace(run, tracks=_tracks(lanes, positions), slices=_slices(placed), spans=spans)
    return trace.with_lost(*shortfalls(processes, trace))


def _placed(process: Process, lanes: _Lanes, groups: Mapping[str, Sequence[int]]) -> _Placed:
    own, position = lanes_of(process)
    numbers = np.array([lanes.add(lane) for lane in own], dtype=np.int32)
    if not own:
        key, device = main_device(process)
        lanes.devices.setdefault(key, device)
    transfers, table = _transfers(process, groups)
    return _Placed(process.columns, numbers[position] if own else numbers, process.names, transfers, table)


def _order(device: Device) -> tuple[float, ...]:
    """By rank, then stage, then ordinal; what is unknown comes last."""
    numbers = (device.rank, device.stage, device.ordinal)
    return tuple(float("inf") if number is None else number for number in numbers)


def _tracks(lanes: _Lanes, positions: Mapping[Hashable, int]) -> pd.DataFrame:
    rows = list(lanes.lanes.values())
    return frames.table(
        TRACKS,
        {
            "device": [positions[lane.device_key] for lane in rows],
            "process": [lane.process for lane in rows],
            "lane": [lane.name for lane in rows],
            "kind": [lane.kind for lane in rows],
        },
    )


def _spans(processes: Sequence[Process], positions: Mapping[Hashable, int]) -> pd.DataFrame:
    """The spans that the processes named, in order of time."""
    named = [
        process.spans.assign(device=positions[main_device(process)[0]])
        for process in processes
        if len(process.spans)
    ]
    if not named:
        return frames.empty(SPANS)
    return pd.concat(named, ignore_index=True).sort_values("begin_ns", kind="stable", ignore_index=True)


def _slices(placed: Sequence[_Placed]) -> pd.DataFrame:
    """The slices of all processes in order of time, to be checked by the trace.

    Takes the columns out of the pieces, so that a big recording is not held twice.
    """
    names: dict[str, int] = {}
    transfers: dict[Transfer, int] = {Transfer(): 0}
    name_codes = [_take(_numbered(piece.names, names), piece.columns.pop("name")) for piece in placed]
    transfer_codes = [_take(_numbered(piece.table, transfers), piece.transfers) for piece in placed]
    order = np.argsort(_joined([piece.columns["begin_ns"] for piece in placed]), kind="stable")

    def column(name: str) -> np.ndarray[Any, Any]:
        return _joined([piece.columns.pop(name) for piece in placed])[order]

    table = list(transfers)
    moved = _joined(transfer_codes)[order]
    told = _take(np.array([transfer.bytes for transfer in table], dtype=np.int64), moved)
    frame = {
        "track": _joined([piece.tracks for piece in placed])[order],
        "name": _text(_joined(name_codes)[order], list(names)),
        "category": _text(column("code"), CATEGORIES),
        "begin_ns": column("begin_ns"),
        "end_ns": column("end_ns"),
        "correlation": column("correlation"),
        "operation": _text_of([transfer.operation for transfer in table], moved),
        "group": _text_of([transfer.group for transfer in table], moved),
        "peer": _take(np.array([_peer(transfer) for transfer in table], dtype=np.int32), moved),
        "bytes": np.where(told == UNKNOWN, column("bytes"), told),
        "microbatch": column("microbatch"),
        "span": _text(column("span") + 1, ("", *SPAN_KINDS)),
    }
    return pd.DataFrame(frame, copy=False)


def _peer(transfer: Transfer) -> int:
    """The peer, or unknown where no rank can have such a number."""
    return transfer.peer if 0 <= transfer.peer < 1 << 31 else UNKNOWN


def _numbered(values: Iterable[Any], known: dict[Any, int]) -> np.ndarray[Any, Any]:
    return np.array([known.setdefault(value, len(known)) for value in values], dtype=np.int32)


def _take(values: np.ndarray[Any, Any], positions: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return values[positions] if len(positions) else values[:0]


def _joined(pieces: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def _text_of(texts: Sequence[str], positions: np.ndarray[Any, Any]) -> Any:
    known: dict[str, int] = {}
    return _text(_take(_numbered(texts, known), positions), list(known))


def _text(codes: np.ndarray[Any, Any], texts: Sequence[str]) -> Any:
    return pd.Categorical.from_codes(codes, pd.Index(list(texts)))


def _transfers(
    process: Process, groups: Mapping[str, Sequence[int]]
) -> tuple[np.ndarray[Any, Any], tuple[Transfer, ...]]:
    """What each slice moves, as positions in a table: told by its arguments, else by the range round
    it, else by its name."""
    columns, names = process.columns, process.names
    table: dict[Transfer, int] = {Transfer(): 0}
    result = np.zeros(len(columns["code"]), dtype=np.int32)
    for code, of_name in (
        (KERNEL, communication.of_kernel_name),
        (HOST_RANGE, communication.of_host_range),
    ):
        by_name = _numbered(map(of_name, names), table)
        rows = columns["code"] == code
        result[rows] = _take(by_name, columns["name"][rows])
    if process.lanes_are_devices:
        return result, tuple(table)
    own_groups = {**groups, **{group.name: group.ranks for group in process.facts.groups}}
    told = (columns["code"] == KERNEL) & (columns["message"] != UNKNOWN)
    by_message = _numbered(
        [communication.of_message(message, process.rank, own_groups) for message in process.part.messages],
        table,
    )
    result[told] = _take(by_message, columns["message"][told])
    annotated, by_annotation = _annotated((result != 0) & ~told, process, own_groups)
    result[annotated] = _numbered(by_annotation, table)
    return result, tuple(table)


def _annotated(
    wanted: np.ndarray[Any, Any], process: Process, groups: Mapping[str, Sequence[int]]
) -> tuple[np.ndarray[Any, Any], list[Transfer]]:
    """The kernels among `wanted` that lie in a range which names an operation, and what it names."""
    columns = process.columns
    named = [communication.of_annotation(name, process.rank, groups) for name in process.names]
    speaks = np.array([bool(t and t.operation != "unknown") for t in named], dtype=bool)
    ranges = np.flatnonzero(columns["code"] == DEVICE_RANGE)
    ranges = ranges[speaks[columns["name"][ranges]]] if len(ranges) else ranges
    ranges = ranges[np.argsort(columns["begin_ns"][ranges], kind="stable")]
    rows = np.flatnonzero(wanted)
    found = []
    for lane in np.unique(columns["lane"][ranges]).tolist():
        around = ranges[columns["lane"][ranges] == lane]
        kernels = rows[columns["lane"][rows] == lane]
        begins = columns["begin_ns"][kernels]
        last = np.searchsorted(columns["begin_ns"][around], begins + _ROUNDING_NS, side="right") - 1
        inside = (last >= 0) & (columns["end_ns"][around[last]] >= begins)
        found.append(np.stack([kernels[inside], around[last][inside]]))
    if not found:
        return np.zeros(0, dtype=np.int64), []
    kernels, around = np.concatenate(found, axis=1)
    transfers = [named[name] for name in columns["name"][around].tolist()]
    return kernels, [transfer or Transfer() for transfer in transfers]


def _engine(processes: Sequence[Process]) -> str | None:
    texts = [text for process in processes for text in (*process.part.process_names.values(), *process.names)]
    return next(
        (engine for engine, mark in _ENGINES.items() if any(mark.search(text) for text in texts)), None
    )


def _clock(processes: Sequence[Process]) -> Clock:
    if len(processes) == 1:
        return Clock(uncertainty_ns=0, how="one process")
    bases = [process.facts.base_ns is not None for process in processes]
    middles = [process.middle_ns for process in processes if process.middle_ns is not None]
    if any(bases) and not all(bases):
        return Clock(aligned=False, how="some files name the time that theirs count from, others do not")
    if middles and max(middles) - min(middles) > DAY_NS:
        return Clock(aligned=False, how="the files' times lie more than a day apart")
    hosts = {process.facts.host for process in processes if process.facts.host}
    if len(hosts) > 1:
        return Clock(how=f"the wall clocks of {len(hosts)} hosts, as the files write them")
    return Clock(how="the times that the processes wrote themselves")
