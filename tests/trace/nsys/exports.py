"""Small SQLite exports as Nsight Systems writes them, for the tests of reading them.

The tables and columns are those of schema 3.25 (Nsight Systems 2026.2), less columns that mean nothing here.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

TABLES: Mapping[str, str] = {
    "CUPTI_ACTIVITY_KIND_KERNEL": "start, end, deviceId, contextId, streamId, correlationId, globalPid, "
    "demangledName, shortName, mangledName",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "start, end, deviceId, streamId, correlationId, globalPid, bytes, copyKind",
    "CUPTI_ACTIVITY_KIND_MEMSET": "start, end, deviceId, streamId, correlationId, globalPid, bytes",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": "start, end, deviceId, streamId, correlationId, globalPid, graphId",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start, end, globalTid, correlationId, nameId",
    "NVTX_EVENTS": "start, end, eventType, text, textId, globalTid, domainId",
    "StringIds": "id, value",
    "TARGET_INFO_GPU": "id, name, totalMemory, computeMajor, computeMinor",
    "TARGET_INFO_CUDA_DEVICE": "gpuId, cudaId, pid",
    "TARGET_INFO_SYSTEM_ENV": "name, value",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs",
    "PROCESSES": "globalPid, pid, name",
    "ThreadNames": "nameId, globalTid",
}
PUSHED, STARTED, THREAD_NAME = 59, 60, 39
SEND_RECV = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
GEMM = "void gemm<128>(float*)"
COPY_HOST_TO_DEVICE = 1


def process(pid: int) -> int:
    """The number that an export has for a process."""
    return (1 << 48) + (pid << 24)


def thread(pid: int, tid: int) -> int:
    return process(pid) + tid


class Export:
    """Rows to be written, table by table; `write` makes the file with the tables that have any."""

    def __init__(self) -> None:
        self.rows: dict[str, list[dict[str, Any]]] = {}
        self._strings: dict[str, int] = {}
        self._correlation = 0

    def add(self, table: str, **values: Any) -> Export:
        self.rows.setdefault(table, []).append(values)
        return self

    def string(self, text: str) -> int:
        if text not in self._strings:
            self._strings[text] = len(self._strings) + 1
            self.add("StringIds", id=self._strings[text], value=text)
        return self._strings[text]

    def kernel(
        self, start: int, end: int, name: str = GEMM, pid: int = 100, device: int = 0, stream: int = 7,
        called: tuple[int, int] | None = None,
    ) -> Export:  # fmt: skip
        """called: when, and by which thread, it was launched."""
        self._correlation += 1
        if called is not None:
            at, tid = called
            self.add(
                "CUPTI_ACTIVITY_KIND_RUNTIME", start=at, end=at + 1, globalTid=thread(pid, tid),
                correlationId=self._correlation, nameId=self.string("cudaLaunchKernel"),
            )  # fmt: skip
        return self.add(
            "CUPTI_ACTIVITY_KIND_KERNEL", start=start, end=end, deviceId=device, contextId=1, streamId=stream,
            correlationId=self._correlation, globalPid=process(pid), demangledName=self.string(name),
            shortName=self.string(name.partition("<")[0]),
        )  # fmt: skip

    def range(
        self, start: int, end: int | None, text: str, pid: int = 100, tid: int = 1, kind: int = PUSHED
    ) -> Export:
        return self.add(
            "NVTX_EVENTS",
            start=start,
            end=end,
            eventType=kind,
            text=text,
            globalTid=thread(pid, tid),
            domainId=0,
        )

    def write(self, path: Path, also: Sequence[str] = ()) -> Path:
        """also: statements to be executed at the end."""
        with sqlite3.connect(path) as file:
            for table, rows in self.rows.items():
                columns = TABLES[table].split(", ")
                file.execute(f'CREATE TABLE "{table}" ({TABLES[table]})'.replace(" end,", ' "end",'))
                places = ", ".join("?" * len(columns))
                values = [[row.get(column) for column in columns] for row in rows]
                file.executemany(f'INSERT INTO "{table}" VALUES ({places})', values)
            for statement in also:
                file.execute(statement)
        file.close()
        return path
