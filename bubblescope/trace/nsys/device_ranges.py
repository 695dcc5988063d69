"""Ranges of the host as the devices saw them: from the first to the last work that was launched within."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from bubblescope.trace.nsys.database import Longs
from bubblescope.trace.nsys.launches import MOST_NESTED, around
from bubblescope.trace.part import Columns

#: Ranges in which NCCL launches its kernels, as NCCL marks its own functions.
_GROUP_START, _GROUP_END, _WAYS = "ncclGroupStart", "ncclGroupEnd", {"ncclSend": "send", "ncclRecv": "recv"}
_TOLD = re.compile(r"nccl:")
_MOST_IN_A_GROUP = 1024


def projected(ranges: Columns, parent: Longs, found: Longs, work: Columns, at: Longs) -> Columns:
    """One row per range and lane on which something of it ran: range, lane, begin_ns, end_ns.

    found: the innermost range around the launch of each piece of work; parent: of each range. See
    `innermost`.
    """
    lanes = int(work["lane"].max(initial=0)) + 1
    levels: list[Columns] = []
    for _ in range(MOST_NESTED):
        rows = np.flatnonzero(found >= 0)
        if not len(rows):
            break
        levels.append(
            _extent(found[rows] * lanes + work["lane"][rows], work["begin_ns"][rows], work["end_ns"][rows])
        )
        found = around(np.where(found < 0, -1, parent[found]), parent, ranges["end_ns"], at)
    joined = {
        name: np.concatenate([level[name] for level in levels]) if levels else np.empty(0, np.int64)
        for name in ("key", "begin_ns", "end_ns")
    }
    whole = _extent(joined["key"], joined["begin_ns"], joined["end_ns"])
    return {
        "range": whole["key"] // lanes, "lane": whole["key"] % lanes,
        "begin_ns": whole["begin_ns"], "end_ns": whole["end_ns"],
    }  # fmt: skip


def ways(ranges: Columns, names: Sequence[str], parent: Longs, found: Longs) -> Iterator[tuple[int, str]]:
    """The positions in `found` of launches that only send or only receive, by NCCL's own ranges, with "send"
    or "recv". Groups that do both are left out, and what a range of torch's names already."""
    order = np.lexsort((ranges["begin_ns"], ranges["thread"]))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    for position, number in enumerate(found.tolist()):
        around_it = [names[each] for each in _outwards(number, parent)]
        if any(_TOLD.match(name) for name in around_it):
            continue
        done = set()
        for each in _outwards(number, parent):
            if names[each] in _WAYS:
                done = {_WAYS[names[each]]}
            elif names[each] == _GROUP_END:
                before = order[: place[each]][-_MOST_IN_A_GROUP:]
                own = ranges["thread"][before] == ranges["thread"][each]
                done = set(_in_group([names[other] for other in before[own].tolist()]))
            if done:
                break
        if len(done) == 1:
            yield position, done.pop()


def _outwards(number: int, parent: Longs) -> Iterator[int]:
    for _ in range(MOST_NESTED):
        if number < 0:
            return
        yield number
        number = int(parent[number])


def _in_group(before: Sequence[str]) -> Iterator[str]:
    """What was asked for since the group began, the last first; groups may stand within it."""
    depth = 0
    for name in reversed(before):
        depth += (name == _GROUP_END) - (name == _GROUP_START)
        if depth < 0:
            return
        if name in _WAYS:
            yield _WAYS[name]


def _extent(key: Longs, begin: Longs, end: Longs) -> Columns:
    """The earliest begin and the latest end of each key."""
    keys, position = np.unique(key, return_inverse=True)
    first = np.full(len(keys), np.iinfo(np.int64).max)
    last = np.full(len(keys), np.iinfo(np.int64).min)
    np.minimum.at(first, position, begin)
    np.maximum.at(last, position, end)
    return {"key": keys, "begin_ns": first, "end_ns": last}
