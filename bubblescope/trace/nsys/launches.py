"""Which ranges a piece of device work belongs to: those open on its thread when it was launched."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bubblescope.trace.nsys.database import MISSING, Database, Longs, whole
from bubblescope.trace.part import Columns

CALLS = "CUPTI_ACTIVITY_KIND_RUNTIME"
#: Ranges open at once on one thread, as far as they are followed.
MOST_NESTED = 64
#: The lower bits of a thread's number tell it from the others of its process.
PROCESS = ~0xFFFFFF
_CORRELATIONS = (1 << 33) - 1
_NONE = np.empty(0, np.int64)


def launches(database: Database, activity: Columns) -> tuple[Longs, Longs]:
    """When, and on which thread, each row of the activity was launched; MISSING where not told."""
    processes, own = np.unique(activity["process"], return_inverse=True)
    keys, position = np.unique(_key(own, activity["correlation"]), return_inverse=True)
    at, thread = (np.full(len(keys), MISSING) for _ in range(2))
    for block in database.rows(CALLS, ("start", "globalTid", "correlationId")):
        start, tid, correlation = map(whole, block)
        process = np.searchsorted(processes, tid & PROCESS)
        ours = (process < len(processes)) & (correlation >= 0)
        ours[ours] = processes[process[ours]] == (tid & PROCESS)[ours]
        key = _key(process[ours], correlation[ours])
        place = np.searchsorted(keys, key)
        known = place < len(keys)
        known[known] = keys[place[known]] == key[known]
        at[place[known]], thread[place[known]] = start[ours][known], tid[ours][known]
    untold = activity["correlation"] < 0
    return np.where(untold, MISSING, at[position]), np.where(untold, MISSING, thread[position])


def innermost(ranges: Columns, at: Longs, thread: Longs) -> tuple[Longs, Longs]:
    """For each time the range around it on its thread that began last; for each range the same at its own
    begin. Both as positions in `ranges`, -1 where there is none. Ranges may cross."""
    found = np.full(len(at), -1)
    parent = np.full(len(ranges["thread"]), -1)
    launched = dict(_by_value(thread, np.argsort(thread, kind="stable")))
    for number, own in _by_value(ranges["thread"], np.lexsort((ranges["begin_ns"], ranges["thread"]))):
        begin, end = ranges["begin_ns"][own], ranges["end_ns"][own]
        before = np.fromiter(_parents(begin.tolist(), end.tolist()), np.int64, len(own))
        parent[own] = np.where(before < 0, -1, own[before])
        rows = launched.get(number, _NONE)
        last = np.searchsorted(begin, at[rows], side="right") - 1
        found[rows] = np.where(last < 0, -1, own[last])
    return around(found, parent, ranges["end_ns"], at), parent


def _by_value(values: Longs, order: Longs) -> Iterator[tuple[int, Longs]]:
    """Each distinct value with the positions that have it, in the given order, which is one by value."""
    distinct, first = np.unique(values[order], return_index=True)
    yield from zip(distinct.tolist(), np.split(order, first[1:]), strict=True) if len(distinct) else ()


def around(found: Longs, parent: Longs, end: Longs, at: Longs) -> Longs:
    """From each range on outwards to the first that had not ended at its time; -1 where there is none."""
    found = found.copy()
    for _ in range(MOST_NESTED):
        over = np.flatnonzero(found >= 0)
        over = over[end[found[over]] < at[over]]
        if not len(over):
            return found
        found[over] = parent[found[over]]
    found[over] = -1
    return found


def _parents(begins: list[int], ends: list[int]) -> Iterator[int]:
    """Of each range the one that began last before it and was still open."""
    open_ranges: list[int] = []
    for number, begin in enumerate(begins):
        while open_ranges and ends[open_ranges[-1]] <= begin:
            open_ranges.pop()
        yield open_ranges[-1] if open_ranges else -1
        open_ranges.append(number)


def _key(process: Longs, correlation: Longs) -> Longs:
    return process * (_CORRELATIONS + 1) + (correlation & _CORRELATIONS)
