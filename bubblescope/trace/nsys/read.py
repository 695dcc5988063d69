"""From an export to documents, one for each of its processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bubblescope.errors import NotATraceError
from bubblescope.trace.model import Lost
from bubblescope.trace.nsys import activity as device_work
from bubblescope.trace.nsys import nvtx
from bubblescope.trace.nsys.activity import activity, strings
from bubblescope.trace.nsys.database import MISSING, Database
from bubblescope.trace.nsys.documents import documents, processes
from bubblescope.trace.nsys.launches import CALLS, PROCESS, launches
from bubblescope.trace.nsys.machine import machine
from bubblescope.trace.nsys.nvtx import ranges
from bubblescope.trace.part import MOST_HOST_OPS, Columns
from bubblescope.trace.processes import Document
from bubblescope.trace.source import shown

_MOST_PROCESSES = 1024
#: Every export has it, also one without a table of events.
_SESSION = "TARGET_INFO_SESSION_START_TIME"
_HOW = "record with `nsys profile --trace=cuda,nvtx`"


def read_export(path: Path) -> tuple[list[Document], list[Lost]]:
    """The documents in an SQLite export, and what it lacks.

    Raises NotATraceError where it is none, or so damaged that nothing of it can be read.
    """
    with Database(path) as database:
        if not {device_work.KERNELS, device_work.GRAPHS, nvtx.EVENTS} & set(database.tables):
            _refuse(database, path)
        work = activity(database)
        marked = ranges(database, 0 if len(work["code"]) else MOST_HOST_OPS)
        launched = len(work["code"]) and len(marked.columns["code"])
        at, thread = launches(database, work) if launched else [np.full(len(work["code"]), MISSING)] * 2
        names = strings(database, set(np.unique(work["name"]).tolist()))
        told = machine(database)
        lost = [*_gaps(database, work, bool(launched)), *_damage(database, path)]
    shown_processes = processes(work, marked)
    if len(shown_processes) > _MOST_PROCESSES:
        raise NotATraceError(
            f"{shown(path)} shows {len(shown_processes)} processes; up to {_MOST_PROCESSES} can be looked at"
        )
    silent = np.setdiff1d(marked.columns["thread"] & PROCESS, shown_processes)
    if len(silent):
        lost.append(Lost("ranges of processes without device work", "they are left out", len(silent)))
    work |= {"at": at, "thread": thread}
    found = list(documents(shown(path.name), work, names, marked, told))
    if not found:
        damage = "damaged: nothing can be read of the events in" if any(each.damage for each in lost) else ""
        raise NotATraceError(f"{damage or 'empty trace: there is no event in'} {shown(path)}")
    return found, lost


def _refuse(database: Database, path: Path) -> None:
    if database.cut:
        raise NotATraceError(f"damaged: {shown(path)} is cut off before any table of events")
    if _SESSION in database.tables:
        raise NotATraceError(
            f"empty trace: {shown(path)} is an Nsight Systems export with neither kernels nor NVTX ranges; "
            f"{_HOW}"
        )
    raise NotATraceError(
        f"not a trace: {shown(path)} is an SQLite database without the tables of an Nsight Systems export"
    )


def _gaps(database: Database, work: Columns, launched: bool) -> Iterator[Lost]:
    there = database.tables
    if device_work.KERNELS not in there:
        yield Lost("kernels", f"the export has no table {device_work.KERNELS}; {_HOW}")
    graphs = int((work["name"] == device_work.GRAPH).sum())
    if graphs:
        why = "only their whole is recorded, and communication in them counts as compute; record with "
        yield Lost("kernels within CUDA graphs", f"{why}`--cuda-graph-trace=node`", graphs)
    if nvtx.EVENTS not in there:
        yield Lost("NVTX ranges", f"the export has no table {nvtx.EVENTS}, so nothing names a batch; {_HOW}")
    elif launched and CALLS not in there:
        yield Lost("which range launched a kernel", f"the export has no table {CALLS}; {_HOW}")


def _damage(database: Database, path: Path) -> Iterator[Lost]:
    file = shown(path.name)
    if database.cut:
        yield Lost(f"the rest of {file}", f"cut off at byte {path.stat().st_size}", damage=True)
    for table, why in database.broken.items():
        yield Lost(f"rows of {table}", f"{why}, in {file}", damage=True)
    log = path.with_name(f"{path.name}-wal")
    if log.exists() and log.stat().st_size:
        yield Lost(
            f"the latest of {file}", f"{shown(log.name)} holds it: close what writes the export", damage=True
        )
