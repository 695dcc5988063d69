"""What an export says of the machine: its devices, the processes, their threads, when it began."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bubblescope.trace.frames import TIME_LIMIT
from bubblescope.trace.model import Device
from bubblescope.trace.nsys.activity import strings
from bubblescope.trace.nsys.database import LONGEST_TEXT, Database

_MOST = 100_000
_PID_BITS, _PID = 24, 0xFFFFFF


@dataclass(frozen=True)
class Machine:
    """began_ns: the wall-clock time that the export's times count from; None where not told.

    devices: by number, with name, capability and memory. ordinals: a device's number on its machine, by
    process id and the number that the process has for it. processes: names by their number.
    threads: names by their number.
    """

    host: str | None = None
    began_ns: int | None = None
    devices: Mapping[int, Device] = field(default_factory=dict)
    ordinals: Mapping[tuple[int, int], int] = field(default_factory=dict)
    processes: Mapping[int, str] = field(default_factory=dict)
    threads: Mapping[int, str] = field(default_factory=dict)

    def ordinal(self, process: int, device: int) -> int:
        """The number on its machine of a device as a process numbers it."""
        return self.ordinals.get((pid_of(process), device), device)


def pid_of(process: int) -> int:
    """The process id within the number that an export has for a process or thread."""
    return (process >> _PID_BITS) & _PID


def tid_of(thread: int) -> int:
    """The thread id within the number that an export has for a thread."""
    return thread & _PID


def machine(database: Database) -> Machine:
    """What the export says; nothing where it does not."""
    return Machine(
        host=_host(database),
        began_ns=_began_ns(database),
        devices=_devices(database),
        ordinals={
            (pid, number): ordinal
            for pid, number, ordinal in _rows(database, "TARGET_INFO_CUDA_DEVICE", ("pid", "cudaId", "gpuId"))
        },
        processes=dict(_rows(database, "PROCESSES", ("globalPid",), ("name",))),
        threads=_threads(database),
    )


def _host(database: Database) -> str | None:
    named = _rows(database, "TARGET_INFO_SYSTEM_ENV", (), ("name", "value"))
    return next((value for name, value in named if name == "Hostname" and len(value) < LONGEST_TEXT), None)


def _began_ns(database: Database) -> int | None:
    began = [time for (time,) in _rows(database, "TARGET_INFO_SESSION_START_TIME", ("utcEpochNs",))]
    return began[0] if began and 0 < began[0] < TIME_LIMIT else None


def _devices(database: Database) -> dict[int, Device]:
    found: dict[int, Device] = {}
    numbers = ("id", "totalMemory", "computeMajor", "computeMinor")
    for block in database.rows("TARGET_INFO_GPU", numbers, ("name",)):
        for number, memory, major, minor, name in zip(*block, strict=True):
            if number is not None and len(found) < _MOST:
                capability = None if major is None or minor is None else f"{major}.{minor}"
                found[number] = Device(name=name or None, capability=capability, memory_bytes=memory)
    return found


def _threads(database: Database) -> dict[int, str]:
    rows = _rows(database, "ThreadNames", ("globalTid", "nameId"))
    named = strings(database, {name for _, name in rows})
    return {thread: named[name] for thread, name in rows if name in named}


def _rows(
    database: Database, table: str, numbers: Sequence[str], texts: Sequence[str] = ()
) -> list[tuple[Any, ...]]:
    """The first rows of a table in which every one of these columns has a value."""
    found: list[tuple[Any, ...]] = []
    for block in database.rows(table, numbers, texts):
        found += [row for row in zip(*block, strict=True) if None not in row]
        if len(found) > _MOST:
            break
    return found[:_MOST]
