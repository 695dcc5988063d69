"""Reading our own file back, whatever was done to it since it was written."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from bubblescope.errors import NotATraceError
from bubblescope.trace import frames
from bubblescope.trace.frames import CATEGORIES, COUNTERS, REQUESTS, SLICES, SPANS, TRACKS, Kind, Schema
from bubblescope.trace.json_repair import mended
from bubblescope.trace.json_stream import Event
from bubblescope.trace.model import Lost, Trace
from bubblescope.trace.own_format import (
    REQUEST_CATEGORY,
    SCHEMA,
    SPAN_CATEGORY,
    CounterArguments,
    Header,
    RequestArguments,
    SliceArguments,
    SpanArguments,
    Version,
)
from bubblescope.trace.source import shown

_MISSING = -(1 << 63)

#: The arguments of each table's events, and the columns that stand in the event itself.
_TABLES: Mapping[str, tuple[Schema, Any, Mapping[str, Callable[[Event], Any]]]] = {
    "slices": (
        SLICES,
        SliceArguments,
        {"track": attrgetter("tid"), "name": attrgetter("name"), "category": attrgetter("cat")},
    ),
    "spans": (SPANS, SpanArguments, {}),
    "requests": (REQUESTS, RequestArguments, {"request": attrgetter("name")}),
    "counters": (
        COUNTERS,
        CounterArguments,
        {
            "device": attrgetter("pid"),
            "name": attrgetter("name"),
            "time_ns": lambda event: _whole(event.time_ns),
        },
    ),
}


class OwnRecording:
    """A recording in our own format; filled by `add` and closed by `trace`.

    Raises NotATraceError where the header cannot be read.
    """

    def __init__(self, header: bytes | None, path: Path) -> None:
        self._path = path
        self._header = _header(header, path)
        self._broken = 0
        self._columns = {
            name: {column: _Column(kind) for column, kind in schema.columns.items()}
            for name, (schema, _, _) in _TABLES.items()
        }

    def add(self, events: list[Event]) -> None:
        """Take the rows out of a block of events; other events are there for other viewers."""
        by_table: dict[str, list[Event]] = {name: [] for name in _TABLES}
        for event in events:
            name = _table_of(event)
            if name:
                by_table[name].append(event)
        for name, rows in by_table.items():
            if rows:
                self._add_rows(name, rows)

    def _add_rows(self, name: str, events: list[Event]) -> None:
        schema, kind, beside = _TABLES[name]
        rows = [
            (event, arguments)
            for event, arguments in zip(events, _decoded(kind, events), strict=True)
            if arguments is not None
            and all(_fits(schema.columns[column], get(event)) for column, get in beside.items())
        ]
        self._broken += len(events) - len(rows)
        for column, values in self._columns[name].items():
            get = beside.get(column)
            if get:
                values.extend([get(event) for event, _ in rows])
            else:
                own = attrgetter(column)
                values.extend([own(arguments) for _, arguments in rows])

    def trace(self) -> Trace:
        """The recording, with what is missing of it said."""
        header = self._header
        try:
            tracks = frames.table(TRACKS, msgspec.structs.asdict(header.tracks))
            tables = {name: self._table(name, len(tracks)) for name in _TABLES}
            trace = Trace(header.run, tracks=tracks, **tables)
        except ValueError as error:
            raise NotATraceError(f"damaged: {shown(self._path)} contradicts itself ({error})") from None
        return trace.with_lost(*self._lost(trace))

    def _table(self, name: str, tracks: int) -> pd.DataFrame:
        """The table without the rows that refer to nothing or end before they begin."""
        schema, _, _ = _TABLES[name]
        columns = self._columns[name]
        limits = {"track": tracks, "device": len(self._header.run.devices)}
        values = {
            column: np.frombuffer(held.values, held.values.typecode) for column, held in columns.items()
        }
        kept = np.ones(len(next(iter(values.values()))), dtype=bool)
        for column, limit in limits.items():
            if column in values:
                kept &= (values[column] >= 0) & (values[column] < limit)
        for column, kind in schema.columns.items():
            if isinstance(kind, tuple):
                kept &= values[column] < len(kind)
        if schema.intervals:
            kept &= values["end_ns"] >= values["begin_ns"]
        self._broken += int((~kept).sum())
        return frames.table(
            schema, {column: held.finished(values[column][kept]) for column, held in columns.items()}
        )

    def _lost(self, trace: Trace) -> list[Lost]:
        missing = {name: self._header.rows.get(name, 0) - len(getattr(trace, name)) for name in _TABLES}
        lost = [
            Lost(
                f"rows of {name}",
                f"{shown(self._path.name)} holds fewer than it was written with",
                count,
                damage=True,
            )
            for name, count in missing.items()
            if count > 0
        ]
        if self._broken:
            why = f"in {shown(self._path.name)} they are not as they were written"
            lost.append(Lost("broken rows", why, self._broken, damage=True))
        return lost


class _Column:
    """The values of a column as they come; texts as their position among the distinct ones."""

    def __init__(self, kind: Kind) -> None:
        self.values: array[Any] = array("d" if kind == "float64" else "q")
        self._kind = kind
        self._texts = {text: code for code, text in enumerate(kind if isinstance(kind, tuple) else ())}

    def extend(self, values: Sequence[Any]) -> None:
        if self._kind == "float64":
            values = [float(value) for value in values]
        elif self._kind == "time?":
            values = [_MISSING if value is None else value for value in values]
        elif self._kind == "text" or isinstance(self._kind, tuple):
            texts = self._texts
            values = [texts.setdefault(value, len(texts)) for value in values]
        self.values.extend(values)

    def finished(self, values: np.ndarray[Any, Any]) -> Any:
        """These of its values, as the schema wants them."""
        if self._kind == "time?":
            return [None if value == _MISSING else value for value in values.tolist()]
        if self._kind == "text" or isinstance(self._kind, tuple):
            texts = self._kind if isinstance(self._kind, tuple) else self._texts
            return pd.Categorical.from_codes(values, pd.Index(list(texts)))
        return values


def _header(text: bytes | None, path: Path) -> Header:
    file = shown(path)
    if text is None:
        raise NotATraceError(f"damaged: the head of {file} is too long")
    text, _ = mended(text)
    try:
        version = msgspec.json.decode(text, type=Version).schema
        if version > SCHEMA:
            raise NotATraceError(
                f"{file} was written by a newer Bubblescope (schema {version}, this one reads {SCHEMA}): "
                "update Bubblescope"
            )
        return msgspec.json.decode(text, type=Header)
    except (msgspec.DecodeError, RecursionError) as error:
        raise NotATraceError(f"damaged: the head of {file} makes no sense ({error})") from None


def _table_of(event: Event) -> str | None:
    if event.ph == "X":
        return "spans" if event.cat == SPAN_CATEGORY else "slices" if event.cat in CATEGORIES else None
    if event.ph == "C":
        return "counters"
    return "requests" if event.ph == "b" and event.cat == REQUEST_CATEGORY else None


def _decoded(kind: Any, events: list[Event]) -> list[Any]:
    """The arguments of events of one kind; None where they are not as they should be."""
    try:
        decoded: list[Any] = msgspec.json.decode(b"[%b]" % b",".join(e.args for e in events), type=list[kind])
    except (msgspec.DecodeError, RecursionError):
        return [_decoded_alone(kind, event) for event in events]
    return decoded


def _decoded_alone(kind: Any, event: Event) -> Any:
    try:
        return msgspec.json.decode(event.args, type=kind)
    except (msgspec.DecodeError, RecursionError):
        return None


def _whole(text: msgspec.Raw) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


def _fits(kind: Kind, value: Any) -> bool:
    """Whether a value that stands in the event itself is of its column's kind."""
    if kind == "text" or isinstance(kind, tuple):
        return isinstance(value, str)
    bits = 31 if kind == "int32" else 63
    return type(value) is int and -(1 << bits) <= value < 1 << bits
