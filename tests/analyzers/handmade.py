"""Recordings written down slice by slice, for tests whose numbers are computed by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bubblescope.trace import frames
from bubblescope.trace.frames import SLICES, TRACKS, UNKNOWN
from bubblescope.trace.model import Device, Run, Trace


@dataclass(frozen=True)
class Slice:
    """One slice of a device; lanes are told apart by their name."""

    device: int
    begin: int
    end: int
    name: str = "gemm"
    operation: str = ""
    peer: int = UNKNOWN
    bytes: int = UNKNOWN
    group: str = ""
    category: str = "kernel"
    lane: str = "compute"
    microbatch: int = UNKNOWN


def send(device: int, peer: int, begin: int, end: int, size: int = 1 << 20, group: str = "pp") -> Slice:
    return Slice(device, begin, end, "ncclDevKernel_SendRecv", "send", peer, size, group, lane="nccl")


def recv(device: int, peer: int, begin: int, end: int, size: int = 1 << 20, group: str = "pp") -> Slice:
    return Slice(device, begin, end, "ncclDevKernel_SendRecv", "recv", peer, size, group, lane="nccl")


def collective(device: int, begin: int, end: int, operation: str = "allreduce", group: str = "tp") -> Slice:
    return Slice(device, begin, end, "ncclDevKernel", operation, UNKNOWN, 8, group, lane="nccl")


def trace_of(slices: Sequence[Slice], run: Run | None = None, devices: int = 2) -> Trace:
    """A trace with one rank per device, unless the run says otherwise."""
    run = run or Run(devices=tuple(Device(rank=rank, name="GPU") for rank in range(devices)))
    lanes = sorted(
        {(row.device, row.lane, "thread" if row.category.startswith("host") else "stream") for row in slices}
    )
    number = {(device, lane): at for at, (device, lane, _) in enumerate(lanes)}
    return Trace(
        run,
        tracks=frames.table(
            TRACKS,
            {
                "device": [device for device, _, _ in lanes],
                "process": [f"process {device}" for device, _, _ in lanes],
                "lane": [lane for _, lane, _ in lanes],
                "kind": [kind for _, _, kind in lanes],
            },
        ),
        slices=frames.table(
            SLICES,
            {
                "track": [number[row.device, row.lane] for row in slices],
                "name": [row.name for row in slices],
                "category": [row.category for row in slices],
                "begin_ns": [row.begin for row in slices],
                "end_ns": [row.end for row in slices],
                "correlation": [UNKNOWN] * len(slices),
                "operation": [row.operation for row in slices],
                "group": [row.group for row in slices],
                "peer": [row.peer for row in slices],
                "bytes": [row.bytes for row in slices],
                "microbatch": [row.microbatch for row in slices],
            },
        ),
    )
