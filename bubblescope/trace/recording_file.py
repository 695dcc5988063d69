"""Reading one file: the documents in it, or a recording of our own, and what could not be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bubblescope.errors import NotATraceError
from bubblescope.trace.facts import FIELDS
from bubblescope.trace.json_stream import Damage, DocumentStart, EventsStart, Field, read_json
from bubblescope.trace.json_window import Window
from bubblescope.trace.model import Lost
from bubblescope.trace.nsys.database import MAGIC
from bubblescope.trace.nsys.read import read_export
from bubblescope.trace.own_format import KEY
from bubblescope.trace.own_read import OwnRecording
from bubblescope.trace.part import Part
from bubblescope.trace.processes import Document
from bubblescope.trace.refusals import nothing_in, refuse_unread
from bubblescope.trace.source import Source, shown

_HEAD = 1 << 12
_MOST_FIELDS = 8


@dataclass(frozen=True)
class Content:
    """What a file holds: documents of an engine's profiler, or one recording of our own."""

    documents: tuple[Document, ...] = ()
    own: tuple[OwnRecording, ...] = ()
    lost: tuple[Lost, ...] = ()


@dataclass
class _Reading:
    """What was met so far; `fields` are the first distinct names of fields."""

    parts: list[Part] = field(default_factory=list)
    own: list[OwnRecording] = field(default_factory=list)
    fields: dict[str, None] = field(default_factory=dict)


def read_file(path: Path, advance: Callable[[int], None] | None = None) -> Content:
    """Everything in a file; `advance` is called with the bytes that were read from it.

    Raises UsageError where the file cannot be read, NotATraceError where it holds no slices.
    """
    damage = Damage()
    with Source(path, advance) as source:
        window = Window(source)
        head = window.head(_HEAD)
        refuse_unread(path, head)
        if head.startswith(MAGIC):
            return _read_export(path, source, advance)
        reading = _read(window, damage, path)
    lost = tuple(_in_words(damage, shown(path.name)))
    if reading.own:
        return Content(own=tuple(reading.own), lost=lost)
    parts = [part for part in reading.parts if part.slices or part.others]
    if not parts:
        objects = sum(part.shapeless for part in reading.parts)
        raise nothing_in(path, reading.fields, damage, objects)
    if not any(part.slices for part in parts):
        raise NotATraceError(f"no slices in this trace: {shown(path)} holds only instants, counters or names")
    return Content(tuple(Document(shown(path.name), part) for part in parts), lost=lost)


def _read_export(path: Path, source: Source, advance: Callable[[int], None] | None) -> Content:
    if source.packed or not path.is_file():
        raise NotATraceError(
            f"not read: {shown(path)} is a packed SQLite file or a pipe; give the file itself"
        )
    found, lost = read_export(path)
    if advance:
        advance(max(0, path.stat().st_size - source.offset))
    return Content(tuple(found), lost=tuple(lost))


def _read(window: Window, damage: Damage, path: Path) -> _Reading:
    reading = _Reading()
    sink: Part | OwnRecording = Part()
    for item in read_json(window, damage):
        if isinstance(item, list):
            sink.add(item)
        elif isinstance(item, DocumentStart):
            sink = Part()
            reading.parts.append(sink)
        elif isinstance(item, EventsStart):
            reading.fields["traceEvents"] = None
        elif item.key == KEY:
            sink = _own(item, sink, path)
            reading.own.append(sink)
        else:
            _take_field(item, sink, reading)
    return reading


def _own(item: Field, sink: Part | OwnRecording, path: Path) -> OwnRecording:
    if not isinstance(sink, Part) or sink.slices or sink.others:
        raise NotATraceError(f"damaged: in {shown(path)} the field {KEY!r} does not stand before the events")
    return OwnRecording(item.value, path)


def _take_field(item: Field, sink: Part | OwnRecording, reading: _Reading) -> None:
    if len(reading.fields) < _MOST_FIELDS:
        reading.fields[item.key] = None
    if isinstance(sink, Part) and item.key in FIELDS and item.value is not None:
        sink.fields[item.key] = item.value


def _in_words(damage: Damage, file: str) -> Iterator[Lost]:
    if damage.cut:
        yield Lost(f"the rest of {file}", f"{damage.cut[1]}, at byte {damage.cut[0]}", damage=True)
    if damage.broken:
        why = f"they are no JSON or no events; the first is at byte {damage.broken_at} of {file}"
        yield Lost("broken events", why, damage.broken, damage=True)
    if damage.field is not None:
        yield Lost(f"fields of {file}", f"what stands at byte {damage.field} is no JSON", damage=True)
    if damage.repairs.text:
        yield Lost("text that is not UTF-8", f"it was replaced, in {file}", damage.repairs.text, damage=True)
    if damage.repairs.numbers:
        yield Lost("numbers written as inf or nan", f"read as missing, in {file}", damage.repairs.numbers)
