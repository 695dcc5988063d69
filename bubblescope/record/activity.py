"""What CUDA devices did, out of the slots of `record --kernels`: slices, and who launched them.

The injection that sees a device's work and the collector that knows what it is for write files of their
own; the process's id brings them together.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pandas as pd

from bubblescope.collectors._bubblescope_inject import layout
from bubblescope.record.kernels import ASKED_FACT, NOT_LOADED
from bubblescope.record.spool import WORKS, Process
from bubblescope.record.tables import Devices
from bubblescope.trace import communication, frames
from bubblescope.trace.frames import SLICES, TRACKS, UNKNOWN
from bubblescope.trace.model import Device, Lost

#: Facts of these names are of one process, and no facts about the run.
PREFIX = "kernels:"
_PROCESS_FACT, _DEVICE_FACT = "kernels:process", "kernels:device:"
#: What names a span within its process.
_SPAN = ["device", "stage", "kind", "step", "microbatch", "peer", "layer_begin", "layer_end"]
_MESSAGES = ["send", "recv"]

_Pid = tuple[str, int]


@dataclass(frozen=True)
class Placed:
    """The devices that the processes worked on, with those that no collector declared.

    numbers: per process, its own number of a device -> position in `devices`.
    uuids: by position in `devices`, where a process told it.
    """

    devices: Devices
    numbers: tuple[Mapping[int, int], ...]
    uuids: Mapping[int, str]


def placed(processes: Sequence[Process], declared: Devices) -> Placed:
    """Find each device that did work among the declared ones, or add it to them."""
    own = [_declared_by(process, processes, declared) for process in processes]
    told = [_told(process) for process in processes]
    numbers = [_recognised(process, mine, declared) for process, mine in zip(processes, own, strict=True)]
    uuids = {
        _name(processes[at], device, told[at].get(device, {})): position
        for at, known in enumerate(numbers)
        for device, position in known.items()
    }
    devices = list(declared.devices)
    for at, device in _at_work(processes, told):
        facts = told[at].get(device, {})
        uuid = _name(processes[at], device, facts)
        if device not in numbers[at]:
            if uuid not in uuids:
                uuids[uuid] = len(devices)
                devices.append(Device(ordinal=device, host=processes[at].host or None))
            numbers[at][device] = uuids[uuid]
        devices[numbers[at][device]] = _completed(devices[numbers[at][device]], facts)
    named = {position: uuid for uuid, position in uuids.items() if isinstance(uuid, str)}
    return Placed(replace(declared, devices=tuple(devices)), tuple(numbers), named)


def _at_work(
    processes: Sequence[Process], told: Sequence[Mapping[int, Mapping[str, Any]]]
) -> list[tuple[int, int]]:
    """Processes and their devices that did work, by rank as far as it was told."""
    found = [
        (at, device)
        for at, process in enumerate(processes)
        for device in np.unique(process.activities["device"]).tolist()
    ]

    def rank(pair: tuple[int, int]) -> int:
        number = told[pair[0]].get(pair[1], {}).get("rank")
        return number if type(number) is int and number >= 0 else 1 << 31

    return sorted(found, key=rank)


def _pid(process: Process) -> _Pid:
    return process.clock, process.pid


def _declared_by(process: Process, processes: Sequence[Process], declared: Devices) -> list[int]:
    """The devices of the stages that this process declared, whatever file it did that in."""
    same = (at for at, other in enumerate(processes) if _pid(other) == _pid(process))
    return sorted({position for at in same for position in declared.numbers[at].values()})


def _told(process: Process) -> dict[int, dict[str, Any]]:
    """What a process told of its devices, by its own numbers of them."""
    found = {}
    for name, (_, text) in process.facts.items():
        number = name.removeprefix(_DEVICE_FACT)
        if number != name and number.isdecimal():
            facts = _decoded(text)
            found[int(number)] = facts if isinstance(facts, dict) else {}
    return found


def _name(process: Process, device: int, told: Mapping[str, Any]) -> Hashable:
    """What tells a device from all others: its own number, else that which its process has for it."""
    uuid = told.get("uuid")
    return uuid if isinstance(uuid, str) and uuid else (_pid(process), device)


def _recognised(process: Process, own: Sequence[int], declared: Devices) -> dict[int, int]:
    """Which of a process's devices are declared ones: the only one does most work, or the numbers agree."""
    if not len(process.activities) or not own:
        return {}
    if len(own) == 1:
        numbers, counts = np.unique(process.activities["device"], return_counts=True)
        return {int(numbers[counts.argmax()]): own[0]}
    return {
        ordinal: position for position in own if (ordinal := declared.devices[position].ordinal) is not None
    }


def _completed(device: Device, facts: Mapping[str, Any]) -> Device:
    """The device with what its process told of it and the recording did not know."""
    rank = facts.get("rank")
    known: dict[str, Any] = {
        "name": facts.get("name") if isinstance(facts.get("name"), str) else None,
        "capability": facts.get("capability") if isinstance(facts.get("capability"), str) else None,
        "memory_bytes": facts.get("memory_bytes") if type(facts.get("memory_bytes")) is int else None,
        "rank": rank if type(rank) is int and 0 <= rank < 1 << 31 else None,
    }
    return replace(device, **{name: value for name, value in known.items() if getattr(device, name) is None})


@dataclass(frozen=True)
class Work:
    """The work of all devices: tracks and slices, and spans as the devices saw them."""

    tracks: pd.DataFrame
    slices: pd.DataFrame
    spans: pd.DataFrame


def work(processes: Sequence[Process], where: Placed, spans: pd.DataFrame, begin_ns: int) -> Work:
    """Slices of everything that ended after `begin_ns`, joined to the spans that launched it."""
    parts = [
        _rows(process, processes, where, at, begin_ns)
        for at, process in enumerate(processes)
        if len(process.activities)
    ]
    if not parts:
        return Work(frames.empty(TRACKS), frames.empty(SLICES), spans)
    rows = pd.concat(parts, ignore_index=True).sort_values("begin_ns", kind="stable", ignore_index=True)
    rows = _with_sizes(_with_operations(rows, where.devices.devices), spans)
    lane = ["device", "pid", "context", "stream"]
    rows["track"] = rows.groupby(lane).ngroup()
    lanes = rows[lane].drop_duplicates().sort_values(lane).to_numpy().tolist()
    tracks = frames.table(
        TRACKS,
        {
            "device": [device for device, _, _, _ in lanes],
            "process": [f"process {pid}" for _, pid, _, _ in lanes],
            "lane": [f"stream {stream}" for _, _, _, stream in lanes],
            "kind": ["stream"] * len(lanes),
        },
    )
    slices = pd.concat([rows, _graph_launches(rows)], ignore_index=True)
    table = frames.table(SLICES, {name: slices[name].to_numpy() for name in SLICES.columns})
    return Work(tracks, table, _as_devices_saw(spans, rows))


def _rows(
    process: Process, processes: Sequence[Process], where: Placed, at: int, begin_ns: int
) -> pd.DataFrame:
    """One row per activity of a process, with the span that launched it; -1 and "" where none did."""
    activities = process.activities[process.activities["end_ns"] > begin_ns]
    launches = _launches(process, processes, where)
    owner = _owners(activities["correlation"], launches)
    owned = launches.iloc[owner].reset_index(drop=True)
    positions = np.full(int(activities["device"].max(initial=0)) + 1, UNKNOWN)
    for device, position in where.numbers[at].items():
        positions[device : device + 1] = position
    names = pd.Categorical.from_codes(
        np.unique(activities["name"], return_inverse=True)[1],
        pd.Index([process.texts[text] for text in np.unique(activities["name"])]),
    )
    same = ("begin_ns", "end_ns", "bytes", "correlation", "context", "stream", "graph")
    return pd.DataFrame(
        {
            **{name: activities[name].astype(np.int64) for name in same},
            **{name: owned[name] for name in ("step", "microbatch", "stage", "layer_begin", "layer_end")},
            "span_peer": owned["peer"],
            "span": np.where(owner > 0, np.array(layout.KINDS)[owned["kind"]], ""),
            "device": positions[activities["device"]],
            "pid": process.pid,
            "name": names.astype(object),
            "category": np.array(WORKS)[activities["work"]],
        }
    )


def _launches(process: Process, processes: Sequence[Process], where: Placed) -> pd.DataFrame:
    """The spans of a process that launched something, in order of begin; the first row is of nothing."""
    parts = [pd.DataFrame({**{name: [UNKNOWN] for name in _LAUNCH_FIELDS}, "before": 0, "kind": 0})]
    for other in processes:
        if _pid(other) == _pid(process) and len(other.launches):
            part = pd.DataFrame({name: other.launches[name].astype(np.int64) for name in _LAUNCH_FIELDS})
            part["stage"] = [other.stages[number].stage for number in part["stage"]]
            parts.append(part)
    return pd.concat(parts, ignore_index=True).sort_values("after", kind="stable", ignore_index=True)


_LAUNCH_FIELDS = (
    "step", "microbatch", "after", "before", "stage", "peer", "layer_begin", "layer_end", "kind",
)  # fmt: skip


def _owners(correlation: npt.NDArray[Any], launches: pd.DataFrame) -> npt.NDArray[np.int64]:
    """The row of `launches` that each was launched in, 0 for none: of several the one begun last."""
    order = np.argsort(correlation, kind="stable")
    ordered = correlation[order].astype(np.int64)
    first = np.searchsorted(ordered, launches["after"].to_numpy(), side="right")
    last = np.searchsorted(ordered, launches["before"].to_numpy(), side="left")
    owner = np.zeros(len(ordered), dtype=np.int64)
    for row, (begin, end) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
        owner[begin:end] = row
    result = np.empty_like(owner)
    result[order] = owner
    return result


def _with_operations(rows: pd.DataFrame, devices: Sequence[Device]) -> pd.DataFrame:
    """The rows with what each moves between ranks: its name tells, or the span that launched it.

    NCCL's kernel for sends and receives does not say which it is; the span says that and the peer.
    Collectives other than broadcasts are taken to stay within a stage of several devices.
    """
    by_name = {name: communication.of_kernel_name(name).operation for name in rows["name"].unique()}
    operation = rows["name"].map(by_name).where(rows["category"] == "kernel", "")
    told = (operation == "unknown") & rows["span"].isin(["send", "recv"])
    ranks = _peer_ranks(rows[told], devices)
    stages = [device.stage for device in devices]
    shared = np.array([stage is not None and stages.count(stage) > 1 for stage in stages], bool)
    within = (
        shared[rows["device"]] & (operation != "") & ~operation.isin(["unknown", "broadcast", "send", "recv"])
    )
    group = np.where(within, [f"stage {stages[device]}" for device in rows["device"]], "")
    return rows.assign(
        operation=operation.where(~told, rows["span"]),
        group=group,
        peer=ranks.reindex(rows.index, fill_value=UNKNOWN),
    )


def _with_sizes(rows: pd.DataFrame, spans: pd.DataFrame) -> pd.DataFrame:
    """The rows with the bytes of sends and receives: the span's, in equal parts where it launched several.

    Only where both sides of a message tell of as many bytes and parts; else they are not known.
    """
    messages = rows[rows["operation"].isin(_MESSAGES) & (rows["span"] == rows["operation"])]
    if not len(messages):
        return rows
    named = messages.rename(columns={"span": "kind"}).assign(peer=messages["span_peer"])
    told = spans[spans["kind"].isin(_MESSAGES)].astype({"kind": object}).drop_duplicates(_SPAN, keep=False)
    whole = named.join(told.set_index(_SPAN)["bytes"].rename("whole"), on=_SPAN)["whole"].fillna(UNKNOWN)
    parts = named.groupby(_SPAN)["begin_ns"].transform("size")
    ends = np.sort(named[["stage", "peer"]].to_numpy(), axis=1)
    edge = [named["microbatch"], ends[:, 0], ends[:, 1]]
    sides = named["kind"].groupby(edge).transform("nunique")
    alike = (whole.groupby(edge).transform("nunique") == 1) & (parts.groupby(edge).transform("nunique") == 1)
    known = (whole > 0) & alike & (sides == 2)
    sizes = rows["bytes"].copy()
    sizes[messages.index] = (whole // parts).where(known, UNKNOWN).astype(np.int64)
    return rows.assign(bytes=sizes)


def _peer_ranks(rows: pd.DataFrame, devices: Sequence[Device]) -> pd.Series[int]:
    """The rank of the other side: of the peer stage's devices the one at the same place in its stage."""
    members: dict[int | None, list[int]] = {}
    for position, device in enumerate(devices):
        members.setdefault(device.stage, []).append(position)
    ranks = []
    for device, stage in zip(rows["device"].tolist(), rows["span_peer"].tolist(), strict=True):
        place = members[devices[device].stage].index(device)
        others = members.get(stage, [])
        rank = devices[others[min(place, len(others) - 1)]].rank if others else None
        ranks.append(UNKNOWN if rank is None else rank)
    return pd.Series(ranks, index=rows.index, dtype=np.int64)


def _graph_launches(rows: pd.DataFrame) -> pd.DataFrame:
    """Each launch of a CUDA graph as a range round its nodes, on every stream that they ran on."""
    nodes = rows[rows["graph"] != 0]
    launches = nodes.groupby(["track", "correlation", "graph"], as_index=False, sort=False)
    ranges = launches.agg(
        begin_ns=("begin_ns", "min"), end_ns=("end_ns", "max"), microbatch=("microbatch", "first"),
        span=("span", "first"),
    )  # fmt: skip
    return ranges.assign(
        name=[f"graph {number}" for number in ranges["graph"]],
        category="device_range", operation="", group="", peer=UNKNOWN, bytes=UNKNOWN,
    )  # fmt: skip


def _as_devices_saw(spans: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """The spans, those that launched work from the begin of its first to the end of its last kernel.

    Of sends and receives the communication counts, of the others what is not. A receive that was asked for
    earlier keeps its begin: an engine may launch it only when it has heard on the host that data is to come.
    Where several spans are named alike, none is changed.
    """
    kernels = rows[(rows["category"] == "kernel") & (rows["span"] != "")]
    fitting = kernels[kernels["span"].isin(_MESSAGES) == (kernels["operation"] != "")]
    named = fitting.rename(columns={"span": "kind"}).assign(peer=fitting["span_peer"])
    seen = named.groupby(_SPAN).agg(first=("begin_ns", "min"), last=("end_ns", "max")).astype("Int64")
    found = spans.assign(kind=spans["kind"].astype(object)).join(seen, on=_SPAN)
    known = found["first"].notna() & ~spans.duplicated(_SPAN, keep=False)
    clock = spans["clock"].astype(object).where(~known, "device")
    asked = known & (found["kind"] == "recv") & (found["begin_ns"] < found["first"])
    first = found["first"].mask(asked, found["begin_ns"])
    return spans.assign(
        begin_ns=first.where(known, spans["begin_ns"]).astype(np.int64),
        end_ns=found["last"].where(known, spans["end_ns"]).astype(np.int64),
        clock=clock,
    )


def losses(processes: Sequence[Process]) -> Iterator[Lost]:
    """Why work of devices that was asked for is not in the recording."""
    facts = [fact for process in processes if (fact := _process_fact(process)) is not None]
    asked = [process.facts[ASKED_FACT] for process in processes if ASKED_FACT in process.facts]
    why_not = _decoded(max(asked)[1]) if asked else ""
    if asked and not why_not and not facts:
        why_not = NOT_LOADED
    if why_not:
        yield Lost("kernels", str(why_not))
    reasons = [str(fact["why_not"]) for fact in facts if fact.get("why_not")]
    for reason in dict.fromkeys(reasons):
        yield Lost("kernels of processes", reason, reasons.count(reason))
    dropped = sum(fact["dropped"] for fact in facts if type(fact.get("dropped")) is int)
    if dropped:
        yield Lost("kernels", "CUPTI had no room for them", dropped)


def _process_fact(process: Process) -> dict[str, Any] | None:
    _, text = process.facts.get(_PROCESS_FACT, (0, "null"))
    fact = _decoded(text)
    return fact if isinstance(fact, dict) else None


def _decoded(text: str) -> Any:
    """The value of a fact; None where it is no JSON."""
    try:
        return orjson.loads(text)
    except ValueError:
        return None
