"""Lanes: which device each belongs to, and the stage that a lane of a plain timeline shows."""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass, replace

import numpy as np

from bubblescope.trace.model import Device
from bubblescope.trace.part import DEVICE_CODES
from bubblescope.trace.processes import Process

#: An ordinal beyond this is a process id.
_MOST_ORDINALS = 1024
#: "F_2,0": forward of stage 2 on microbatch 0, as PyTorch's pipelines draw it; B is backward, S the loss.
_STEP = re.compile(r"[A-Z]_?(\d{1,6}),\s*\d+")


@dataclass(frozen=True)
class Lane:
    """A track to be: the key and facts of its device, and how it is called.

    key: equal for lanes that are one, also when several documents write to it.
    """

    device_key: Hashable
    device: Device
    key: Hashable
    process: str
    name: str
    kind: str


def lanes_of(process: Process) -> tuple[list[Lane], np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """The lanes that a process's slices lie on, and for each slice the position of its lane."""
    on_device = process.columns["code"] < DEVICE_CODES
    # A lane may hold device work and host ranges: these are two tracks.
    mixed = process.columns["lane"].astype(np.int64) * 2 + on_device
    used, position = np.unique(mixed, return_inverse=True)
    stages = _stages(process) if process.lanes_are_devices else {}
    main_pid = _main_pid(process, on_device)
    lanes = []
    for value in used.tolist():
        lane, is_stream = divmod(value, 2)
        pid, tid = process.lanes[lane]
        lanes.append(_lane(process, pid, tid, bool(is_stream), main_pid, stages.get(lane)))
    return lanes, position.astype(np.int64)


def main_device(process: Process) -> tuple[Hashable, Device]:
    """The device that most of a process's device work runs on, or one to show for it where there is none."""
    pid = _main_pid(process, process.columns["code"] < DEVICE_CODES)
    return _device_key(process, pid), _device(process, pid)


def _lane(
    process: Process, pid: str, tid: str, is_stream: bool, main_pid: str | None, stage: int | None
) -> Lane:
    own = process.part
    label = own.lane_names.get((pid, tid), "").strip()
    if process.lanes_are_devices:
        key = (*_device_key(process, pid), tid)
        device = replace(_device(process, None), stage=stage)
        label = label or tid
    else:
        device_pid = pid if is_stream else main_pid
        key = _device_key(process, device_pid)
        device = _device(process, device_pid)
        label = label or f"{'stream' if is_stream else 'thread'} {tid}"
    return Lane(
        device_key=key,
        device=device,
        key=(key, pid, tid, is_stream),
        process=own.process_names.get(pid, ""),
        name=label,
        kind="stream" if is_stream else "thread",
    )


def _device_key(process: Process, pid: str | None) -> tuple[Hashable, ...]:
    """Equal for documents of one rank; documents of unknown rank stay apart."""
    rank: Hashable = process.rank if process.rank is not None else ("document", process.number)
    return rank, process.facts.host, pid


def _device(process: Process, pid: str | None) -> Device:
    is_ordinal = pid is not None and pid.isdecimal() and pid.isascii() and int(pid[:9]) < _MOST_ORDINALS
    ordinal = int(pid) if pid is not None and is_ordinal else None
    known = process.facts.devices.get(ordinal, Device()) if ordinal is not None else Device()
    return replace(known, rank=process.rank, stage=process.stage, ordinal=ordinal, host=process.facts.host)


def _main_pid(process: Process, on_device: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> str | None:
    """The device that most of the process's device work runs on: its threads are shown there."""
    lanes = process.columns["lane"][on_device]
    counts: dict[str, int] = {}
    for lane, count in enumerate(np.bincount(lanes, minlength=0).tolist()):
        pid = process.lanes[lane][0]
        counts[pid] = counts.get(pid, 0) + count
    return max(counts, key=lambda pid: counts[pid]) if any(counts.values()) else None


def _stages(process: Process) -> dict[int, int]:
    """Stage by lane, where the names on all lanes are steps of a pipeline's schedule."""
    steps = [_STEP.fullmatch(name) for name in process.names]
    columns = process.columns
    pairs = np.unique(np.stack([columns["lane"], columns["name"]]), axis=1).T.tolist()
    if not all(steps[name] for _, name in pairs):
        return {}
    told: dict[int, set[int]] = {}
    for lane, name in pairs:
        step = steps[name]
        told.setdefault(lane, set()).update([int(step[1])] if step else [])
    if all(len(stages) == 1 for stages in told.values()):
        return {lane: stages.pop() for lane, stages in told.items()}
    tids = {lane: process.lanes[lane][1] for lane in told}
    numbered = all(tid.isdecimal() and tid.isascii() and len(tid) < 7 for tid in tids.values())
    return {lane: int(tid) for lane, tid in tids.items()} if numbered else {}
