"""The documents of an export's processes: what the reader of other profilers' traces makes of a file each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bubblescope.trace.communication import of_kernel_name
from bubblescope.trace.facts import Facts
from bubblescope.trace.frames import SPAN_KINDS, UNKNOWN
from bubblescope.trace.nsys.activity import NAMELESS, OWN_NAMES
from bubblescope.trace.nsys.database import MISSING, Longs, is_time
from bubblescope.trace.nsys.device_ranges import projected, ways
from bubblescope.trace.nsys.launches import PROCESS, innermost
from bubblescope.trace.nsys.machine import Machine, pid_of, tid_of
from bubblescope.trace.nsys.nvtx import Ranges
from bubblescope.trace.nsys.spans import Told, spans, told_by
from bubblescope.trace.part import DEVICE_RANGE, HOST_OP, HOST_RANGE, JOINED, KERNEL, Columns, Part
from bubblescope.trace.processes import Document
from bubblescope.trace.ranks import place_in


def documents(
    file: str, work: Columns, names: Mapping[int, str], marked: Ranges, machine: Machine
) -> Iterator[Document]:
    """One per process that worked on a device, or names spans; one per process where none did.

    work: as `activity` gives it, with `at` and `thread` of its launch. names: of its `name`.
    """
    told = [told_by(name) for name in marked.names]
    ranks = _ranks(told)
    owners = marked.columns["thread"] & PROCESS
    for process in processes(work, marked).tolist():
        part = Part(uncategorised=False)
        own = _usable(_only(work, work["process"] == process), part)
        scopes = _usable(_only(marked.columns, owners == process), part)
        part.on_device = len(own["code"]) > 0
        building = _Building(part, process, machine, names, marked.names, told, ranks)
        yield building.document(file, own, scopes, marked.threads)


def processes(work: Columns, marked: Ranges) -> Longs:
    """The processes that have a document. Beside those that worked on a device the ranges of others, which
    are many in a tree of processes, mean nothing unless they name spans."""
    owners = marked.columns["thread"] & PROCESS
    if not (work["process"] != MISSING).any():
        return np.unique(np.concatenate([work["process"], owners]))
    names = np.array([told_by(name) is not None for name in marked.names], dtype=bool)
    return np.unique(np.concatenate([work["process"], owners[_taken(names, marked.columns["name"])]]))


@dataclass(frozen=True)
class _Building:
    """The document of one process in the making.

    told, ranks: what each of the ranges' names tells of a span; ranks of the stages that have only one.
    """

    part: Part
    process: int
    machine: Machine
    names: Mapping[int, str]
    range_names: Sequence[str]
    told: Sequence[Told | None]
    ranks: Mapping[int, int]

    def document(self, file: str, work: Columns, scopes: Columns, threads: Mapping[int, str]) -> Document:
        """work, scopes: what the process did on devices, and its ranges."""
        work["lane"] = self._lanes(work, ("device", "stream"), self._stream)
        texts, position = self._texts(work)
        scopes["lane"] = self._lanes(scopes, ("thread",), self._thread)
        self._add(scopes, self._named(self.range_names)[scopes["name"]])
        self.part.host_ops = int((scopes["code"] == HOST_OP).sum())

        scopes = _only(scopes, scopes["code"] == HOST_RANGE)
        found, parent = innermost(scopes, work["at"], work["thread"])
        self._add_device_ranges(scopes, projected(scopes, parent, found, work, work["at"]))

        moves = np.array([of_kernel_name(text).operation != "" for text in texts], dtype=bool)
        communication = np.flatnonzero((work["code"] == KERNEL) & _taken(moves, position))
        ours = [row for row, name in enumerate(scopes["name"].tolist()) if self.told[name] is not None]
        told = [self._told(name) for name in scopes["name"][ours].tolist()]
        table, owner = spans(_only(scopes, np.array(ours, np.int64)), told, work, communication)
        self._add({**work, **_joined(told, owner)}, self._named(texts)[position])

        named = [self.range_names[name] for name in scopes["name"].tolist()]
        directions = dict(ways(scopes, named, parent, found[communication]))
        for at, of in enumerate(owner[communication].tolist()):
            if of >= 0:
                directions[at] = self._direction(told[of])
        self._add_directions(_only(work, communication), directions)
        return Document(file, self.part, self._facts(told, threads), table)

    def _told(self, name: int) -> Told:
        told = self.told[name]
        assert told is not None
        return told

    def _facts(self, told: Sequence[Told], threads: Mapping[int, str]) -> Facts:
        own_threads = [name for thread, name in threads.items() if thread & PROCESS == self.process]
        ranks = {each["rank"] for each in told} - {UNKNOWN} or {place_in(name).rank for name in own_threads}
        return Facts(
            rank=_single(ranks - {None}),
            stage=_single({each["stage"] for each in told}),
            began_ns=self.machine.began_ns,
            host=self.machine.host,
            devices=self.machine.devices,
        )

    def _lanes(
        self, rows: Columns, keys: Sequence[str], lane: Callable[[Sequence[int]], tuple[str, str]]
    ) -> Longs:
        distinct, position = np.unique(np.stack([rows[key] for key in keys]), axis=1, return_inverse=True)
        lanes = self.part.lanes
        numbers = [lanes.setdefault(lane(values), len(lanes)) for values in distinct.T.tolist()]
        return _taken(np.array(numbers, dtype=np.int64), position.reshape(-1))

    def _stream(self, values: Sequence[int]) -> tuple[str, str]:
        device, stream = values
        lane = str(self.machine.ordinal(self.process, device)), str(stream)
        self.part.process_names[lane[0]] = self._process_name()
        return lane

    def _thread(self, values: Sequence[int]) -> tuple[str, str]:
        (thread,) = values
        lane = f"process {pid_of(thread)}", str(tid_of(thread))
        self.part.process_names[lane[0]] = self._process_name()
        if name := self.machine.threads.get(thread):
            self.part.lane_names[lane] = f"{name} {tid_of(thread)}"
        return lane

    def _process_name(self) -> str:
        pid = pid_of(self.process)
        name = self.machine.processes.get(self.process)
        # In brackets, so that the number of a process called "worker" is not taken for its rank.
        return f"{name} ({pid})" if name else f"process {pid}"

    def _texts(self, work: Columns) -> tuple[list[str], Longs]:
        """The distinct names of device work, and for each piece the position of its own."""
        distinct, position = np.unique(work["name"], return_inverse=True)
        return [self.names.get(number, OWN_NAMES[NAMELESS]) for number in distinct.tolist()], position.astype(
            np.int64
        )

    def _named(self, texts: Sequence[str]) -> Longs:
        names = self.part.names
        return np.array([names.setdefault(text, len(names)) for text in texts], dtype=np.int64)

    def _add(self, rows: Columns, name: Longs) -> None:
        nothing = np.full(len(name), UNKNOWN)
        unknown = dict.fromkeys(("correlation", "bytes", *JOINED), nothing)
        self.part.extend({**unknown, **rows, "name": name, "message": nothing})

    def _add_device_ranges(self, scopes: Columns, extents: Columns) -> None:
        names = [self.range_names[name] for name in scopes["name"][extents["range"]].tolist()]
        code = np.full(len(names), DEVICE_RANGE, dtype=np.int8)
        self._add({**extents, "code": code}, self._named(names))

    def _add_directions(self, communication: Columns, directions: Mapping[int, str]) -> None:
        """A range round each kernel whose direction is known, named as torch's profiler would."""
        rows = _only(communication, np.array(list(directions), dtype=np.int64))
        code = np.full(len(directions), DEVICE_RANGE, dtype=np.int8)
        self._add({**rows, "code": code}, self._named([f"nccl:{way}" for way in directions.values()]))

    def _direction(self, told: Told) -> str:
        """For example "send 0->1", with ranks where both are known."""
        rank, peer = told["rank"], self.ranks.get(int(told["peer"]))
        if rank == UNKNOWN or peer is None:
            return str(told["kind"])
        return f"{told['kind']} {rank}{'->' if told['kind'] == 'send' else '<-'}{peer}"


def _joined(told: Sequence[Told], owner: Longs) -> Columns:
    """The columns that say which span each piece of work belongs to; `owner`: which of `told`, or -1."""
    of = [(each["microbatch"], SPAN_KINDS.index(each["kind"])) for each in told]
    table = np.array([*of, (UNKNOWN, UNKNOWN)], dtype=np.int64)  # the last where there is none
    return dict(zip(JOINED, table[owner].T, strict=True))


def _ranks(told: Sequence[Told | None]) -> dict[int, int]:
    """The rank of each stage that has exactly one."""
    pairs = {(int(each["stage"]), int(each["rank"])) for each in told if each and each["rank"] != UNKNOWN}
    stages = [stage for stage, _ in pairs]
    return {stage: rank for stage, rank in pairs if stages.count(stage) == 1}


def _usable(rows: Columns, part: Part) -> Columns:
    """The rows with times that can be; the others are counted."""
    begin, end = rows["begin_ns"], rows["end_ns"]
    part.slices += len(begin)
    placed = is_time(begin)
    ended = placed & is_time(end)
    good = ended & (end >= begin)
    part.dropped["no_time"] += int((~placed).sum())
    part.dropped["unfinished"] += int((placed & ~ended).sum())
    part.dropped["negative"] += int((ended & ~good).sum())
    return _only(rows, good)


def _only(rows: Columns, kept: npt.NDArray[Any]) -> Columns:
    return {name: column[kept] for name, column in rows.items()}


def _taken(values: npt.NDArray[Any], positions: Longs) -> npt.NDArray[Any]:
    return values[positions] if len(positions) else values[:0]


def _single(values: Collection[Any]) -> int | None:
    """The one value, where there is only one."""
    return int(next(iter(values))) if len(values) == 1 else None
