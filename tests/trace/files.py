"""Traces as profilers write them, small, for the tests of reading."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bubblescope.trace.model import Trace
from bubblescope.trace.read import read_trace

SEND_RECV = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"


def kernel(
    ts: Any, dur: Any, name: str = "gemm", pid: Any = 0, tid: Any = 7, **arguments: Any
) -> dict[str, Any]:
    """A kernel on a stream; `pid` is the device's ordinal, times are microseconds."""
    return complete("kernel", name, ts, dur, pid, tid, **arguments)


def complete(
    category: str | None, name: str, ts: Any, dur: Any, pid: Any = 0, tid: Any = 7, **arguments: Any
) -> dict[str, Any]:
    event = {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": arguments}
    return event if category is None else {**event, "cat": category}


def half(phase: str, ts: Any, name: str | None = None, tid: Any = 1) -> dict[str, Any]:
    """The begin ("B") or end ("E") of a slice."""
    event = {"ph": phase, "ts": ts, "pid": 1, "tid": tid}
    return event if name is None else {**event, "name": name}


def label(what: str, text: str, pid: Any = 0, tid: Any = 0) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": text}}


def document(
    *events: dict[str, Any], rank: int | None = 0, world_size: int = 1, **fields: Any
) -> dict[str, Any]:
    """What one process's profiler writes; without `rank` it does not say which process that was."""
    info = {} if rank is None else {"distributedInfo": {"rank": rank, "world_size": world_size}}
    return {"schemaVersion": 1, **info, **fields, "traceEvents": list(events)}


def read(folder: Path, content: Any, name: str = "trace.json") -> Trace:
    """The trace in one file of that content: bytes, text, or something to be written as JSON."""
    path = folder / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return read_trace(path)


def read_ranks(folder: Path, contents: dict[str, Any]) -> Trace:
    """The trace in a folder of files, by name."""
    for name, content in contents.items():
        (folder / name).write_text(json.dumps(content))
    return read_trace(folder)


def rows(trace: Trace, *columns: str) -> list[tuple[Any, ...]]:
    """These columns of the slices, in order of their begin."""
    return list(trace.slices[list(columns)].itertuples(index=False, name=None))


def said(trace: Trace) -> dict[str, int | None]:
    """What is said to be lost, with its count."""
    return {lost.what: lost.count for lost in trace.run.lost}


def damaged(trace: Trace) -> list[str]:
    """What is said to be damaged."""
    return [lost.what for lost in trace.run.lost if lost.damage]
