"""The ranges that programs marked with NVTX, and the names that they gave to their threads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from bubblescope.trace.nsys.activity import strings
from bubblescope.trace.nsys.database import Database, Longs, whole
from bubblescope.trace.part import HOST_OP, HOST_RANGE, Columns

EVENTS = "NVTX_EVENTS"
_THREAD_NAME, _PUSHED, _STARTED = 39, 59, 60
_NUMBERS = ("start", "end", "eventType", "globalTid", "textId")
#: Operators of torch, as its `emit_nvtx` marks every one of them.
_OPERATOR = re.compile(r"aten::|.*, (?:seq|op_id) = \d")
_COLUMNS = ("thread", "begin_ns", "end_ns", "name", "code")
_MOST_THREADS = 100_000


@dataclass(frozen=True)
class Ranges:
    """columns: thread (as the export numbers it), begin_ns, end_ns (MISSING where not told), name (a
    position in `names`), code.

    threads: names that programs gave to their threads, by the thread.
    """

    columns: Columns
    names: tuple[str, ...]
    threads: dict[int, str]


@dataclass
class _Reading:
    names: dict[str, int] = field(default_factory=dict)
    threads: dict[int, str] = field(default_factory=dict)
    blocks: list[Columns] = field(default_factory=list)
    operators: int = 0


def ranges(database: Database, most_operators: int) -> Ranges:
    """All ranges; of torch's operators the first `most_operators` only."""
    registered = _registered(database)
    reading = _Reading()
    for start, end, kind, thread, text_id, text in database.rows(EVENTS, _NUMBERS, ("text",)):
        named = [
            own if own is not None else registered.get(number, "")
            for own, number in zip(text, text_id, strict=True)
        ]
        kinds, threads = whole(kind), whole(thread)
        for row in np.flatnonzero(kinds == _THREAD_NAME).tolist():
            if len(reading.threads) < _MOST_THREADS:
                reading.threads[int(threads[row])] = named[row]
        _keep(reading, threads, whole(start), whole(end), kinds, named, most_operators)
    empty = np.empty(0, np.int64)
    columns = {
        name: np.concatenate([block[name] for block in reading.blocks]) if reading.blocks else empty
        for name in _COLUMNS
    }
    return Ranges(columns, tuple(reading.names), reading.threads)


def _registered(database: Database) -> dict[int, str]:
    """Texts that ranges refer to by number."""
    used: set[int] = set()
    for (numbers,) in database.rows(EVENTS, ("textId",)):
        used.update(number for number in numbers if number is not None)
    return strings(database, used) if used else {}


def _keep(
    reading: _Reading, thread: Longs, start: Longs, end: Longs, kind: Longs, named: list[str], most: int
) -> None:
    rows = list(_wanted(reading, np.flatnonzero((kind == _PUSHED) | (kind == _STARTED)), named, most))
    at = np.array([row for row, _ in rows], dtype=np.int64)
    numbers = [reading.names.setdefault(named[row], len(reading.names)) for row, _ in rows]
    reading.blocks.append(
        {
            "thread": thread[at],
            "begin_ns": start[at],
            "end_ns": end[at],
            "name": np.array(numbers, dtype=np.int64),
            "code": np.array([code for _, code in rows], dtype=np.int8),
        }
    )


def _wanted(reading: _Reading, rows: Longs, named: list[str], most: int) -> Iterator[tuple[int, int]]:
    for row in rows.tolist():
        if _OPERATOR.match(named[row]) is None:
            yield row, HOST_RANGE
        elif reading.operators < most:
            reading.operators += 1
            yield row, HOST_OP
        else:
            reading.operators += 1
