"""The tables of a trace out of what the processes of one host wrote.

`begin_ns` is everywhere the time before which nothing is to be kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from bubblescope.collectors._bubblescope_inject import layout
from bubblescope.record.spool import DeclaredStage, Process, Slots
from bubblescope.trace import frames
from bubblescope.trace.frames import COUNTERS, REQUESTS, SLICES, SPANS, TRACKS, UNKNOWN
from bubblescope.trace.model import Device

_INSTANT_LANE = "instants"
_NOT_TOLD = (UNKNOWN, (UNKNOWN, UNKNOWN), "")


@dataclass(frozen=True)
class Devices:
    """The devices that the processes declared, in order of stage and rank.

    numbers: per process, the number of a STAGE slot -> position in `devices`.
    """

    devices: tuple[Device, ...]
    numbers: tuple[Mapping[int, int], ...]


class _Placed(NamedTuple):
    """Slots of all processes with what each speaks of: device, stage, process (all by number)."""

    rows: Slots
    device: npt.NDArray[np.int64]
    stage: npt.NDArray[np.int64]
    process: npt.NDArray[np.int64]

    def where(self, kept: npt.NDArray[np.bool_] | npt.NDArray[np.int64]) -> _Placed:
        return _Placed(self.rows[kept], self.device[kept], self.stage[kept], self.process[kept])


def devices(processes: Sequence[Process]) -> Devices:
    """One device per stage and rank; a process that does not tell its rank means the first one."""
    merged: dict[tuple[int, int], DeclaredStage] = {}
    declared = [stage for process in processes for stage in process.stages.values()]
    for stage in sorted(declared, key=lambda stage: stage.rank == UNKNOWN):
        key = _key(stage, merged)
        merged[key] = _more_complete(merged[key], stage) if key in merged else stage
    order = sorted(merged)
    host = next((process.host for process in processes if process.host), None)
    return Devices(
        tuple(_device(merged[key], host) for key in order),
        tuple(
            {slot: order.index(_key(stage, merged)) for slot, stage in process.stages.items()}
            for process in processes
        ),
    )


def spans(processes: Sequence[Process], found: Devices, begin_ns: int) -> tuple[pd.DataFrame, int]:
    """The spans table in order of begin, and how many ended too early for it."""
    everything = _placed(processes, found, [process.spans for process in processes])
    placed = everything.where(everything.rows["end_ns"] > begin_ns)
    early = len(everything.rows) - len(placed.rows)
    rows, device, stage, _ = placed.where(np.lexsort((placed.device, placed.rows["begin_ns"])))
    same = [name for name in SPANS.columns if name in (rows.dtype.names or ())]
    table = frames.table(
        SPANS,
        {
            **{name: rows[name] for name in same},
            # Less than nothing says nothing.
            **{name: np.maximum(rows[name], UNKNOWN) for name in ("step", "microbatch", "bytes")},
            "stage": stage,
            "device": device,
            "kind": np.array(layout.KINDS)[rows["kind"]],
            "phase": np.array(layout.PHASES)[rows["phase"]],
            "clock": np.array(layout.CLOCKS)[rows["clock"]],
            "lead_ns": np.where(
                rows["lead"] > 0, (rows["lead"].astype(np.int64) - 1) * layout.LEAD_NS, UNKNOWN
            ),
        },
    )
    return table, early


def requests(processes: Sequence[Process], begin_ns: int) -> tuple[pd.DataFrame, int]:
    """The requests table, and how many are not in it because their arrival is not known."""
    known: dict[str, dict[int, tuple[int, int, bool]]] = {}
    for process in processes:
        fields = process.requests[["time_ns", "tokens", "request", "event", "warmup"]]
        for time_ns, tokens, text, event, warmup in fields.tolist():
            events = known.setdefault(process.texts[text], {})
            events[event] = min(
                events.get(event, (time_ns, tokens, bool(warmup))), (time_ns, tokens, bool(warmup))
            )
    arrived = {name: events for name, events in known.items() if layout.ARRIVED in events}
    nothing = (None, UNKNOWN, False)
    rows = sorted(
        (
            (*events[layout.ARRIVED], name, events.get(layout.FIRST_TOKEN, nothing)[0],
             *events.get(layout.ENDED, nothing)[:2])
            for name, events in arrived.items()
            if events.get(layout.ENDED, nothing)[0] is None or events[layout.ENDED][0] > begin_ns
        ),
        key=lambda row: (row[0], row[3]),
    )  # fmt: skip
    names = ("arrival_ns", "prompt_tokens", "warmup", "request", "first_token_ns", "end_ns", "output_tokens")
    columns = dict(zip(names, zip(*rows, strict=True), strict=True)) if rows else dict.fromkeys(names, ())
    return frames.table(REQUESTS, columns), len(known) - len(arrived)


def instants(
    processes: Sequence[Process], found: Devices, begin_ns: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Tracks and slices of the instants: slices without length, one track per device and process."""
    placed = _placed(processes, found, [process.instants for process in processes])
    rows, device, _, process = placed.where(placed.rows["time_ns"] >= begin_ns)
    lanes, track = np.unique(np.stack([device, process]), axis=1, return_inverse=True)
    tracks = frames.table(
        TRACKS,
        {
            "device": lanes[0],
            "process": [f"process {processes[number].pid}" for number in lanes[1]],
            "lane": [_INSTANT_LANE] * lanes.shape[1],
            "kind": ["thread"] * lanes.shape[1],
        },
    )
    unknown = np.full(len(rows), UNKNOWN)
    slices = frames.table(
        SLICES,
        {
            "track": track.reshape(-1),
            "name": _texts(processes, process, rows["name"]),
            "category": ["other"] * len(rows),
            "begin_ns": rows["time_ns"],
            "end_ns": rows["time_ns"],
            "correlation": unknown,
            "operation": [""] * len(rows),
            "group": [""] * len(rows),
            "peer": unknown,
            "bytes": unknown,
        },
    )
    return tracks, slices


def together(*parts: tuple[pd.DataFrame, pd.DataFrame]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Tracks and slices of several sources as one of each."""
    filled = [(tracks, slices) for tracks, slices in parts if len(tracks)] or list(parts[:1])
    first = np.cumsum([0, *(len(tracks) for tracks, _ in filled)])
    moved = [
        slices.assign(track=slices["track"] + at) for at, (_, slices) in zip(first, filled, strict=False)
    ]
    return (
        frames.checked(TRACKS, pd.concat([tracks for tracks, _ in filled], ignore_index=True)),
        frames.checked(SLICES, pd.concat(moved, ignore_index=True)),
    )


def counters(processes: Sequence[Process], found: Devices, begin_ns: int) -> pd.DataFrame:
    """The counters table in order of time."""
    placed = _placed(processes, found, [process.samples for process in processes])
    placed = placed.where(placed.rows["time_ns"] >= begin_ns)
    rows, device, _, process = placed.where(np.argsort(placed.rows["time_ns"], kind="stable"))
    return frames.table(
        COUNTERS,
        {
            "device": device,
            "name": _texts(processes, process, rows["name"]),
            "time_ns": rows["time_ns"],
            "value": rows["value"],
        },
    )


def _placed(processes: Sequence[Process], found: Devices, rows: Sequence[Slots]) -> _Placed:
    device, stage, process = [], [], []
    for number, (of_process, own) in enumerate(zip(processes, rows, strict=True)):
        slots = np.full((2, max(of_process.stages, default=-1) + 1), UNKNOWN)
        for slot, declared in of_process.stages.items():
            slots[:, slot] = found.numbers[number][slot], declared.stage
        device.append(slots[0, own["stage"]])
        stage.append(slots[1, own["stage"]])
        process.append(np.full(len(own), number))
    return _Placed(*map(np.concatenate, (rows, device, stage, process)))


def _texts(
    processes: Sequence[Process], process: npt.NDArray[np.int64], positions: npt.NDArray[np.uint32]
) -> list[str]:
    return [processes[p].texts[position] for p, position in zip(process, positions, strict=True)]


def _key(stage: DeclaredStage, known: Iterable[tuple[int, int]]) -> tuple[int, int]:
    if stage.rank != UNKNOWN:
        return stage.stage, stage.rank
    return min((key for key in known if key[0] == stage.stage), default=(stage.stage, UNKNOWN))


def _more_complete(a: DeclaredStage, b: DeclaredStage) -> DeclaredStage:
    missing = {name: getattr(b, name) for name, value in a._asdict().items() if value in _NOT_TOLD}
    return DeclaredStage(**{**a._asdict(), **missing})


def _device(stage: DeclaredStage, host: str | None) -> Device:
    return Device(
        rank=_known(stage.rank),
        stage=_known(stage.stage),
        ordinal=_known(stage.ordinal),
        name=stage.device or None,
        host=host,
        capability=stage.capability or None,
        memory_bytes=_known(stage.memory_bytes),
    )


def _known(number: int) -> int | None:
    return number if number >= 0 else None
