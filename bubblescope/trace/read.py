"""Reading a recording: one file, or a folder with one file per rank."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from pathlib import Path

from bubblescope.errors import BubblescopeError, NotATraceError, UsageError
from bubblescope.trace.assembly import assembled
from bubblescope.trace.facts import FIELDS
from bubblescope.trace.json_stream import Damage, DocumentStart, EventsStart, Field, read_json
from bubblescope.trace.json_window import Window
from bubblescope.trace.model import Lost, Trace
from bubblescope.trace.part import Part
from bubblescope.trace.processes import Document
from bubblescope.trace.source import Progress, Source, looks_like, shown

_HEAD = 1 << 12
_MOST_FILES = 10_000
_MOST_NAMED_FIELDS = 4

#: What a JSON document without a list of events is, by the fields that give it away.
_FOREIGN = {
    "nodes": "a Chakra execution trace",
    "resourceSpans": "an OpenTelemetry trace",
    "$schema": "a speedscope profile or a JSON schema",
    "segments": "a PyTorch memory snapshot",
    "log": "a HAR file",
}
_NOT_READ_YET = {
    b"SQLite format 3\0": "an Nsight Systems SQLite export",
}
_NOT_READ_NAMES = {
    ".nsys-rep": "an Nsight Systems report",
    ".qdrep": "an Nsight Systems report",
    ".pftrace": "a Perfetto trace",
}
#: Names of files that are looked at in a folder.
_NAMES = ("*.json", "*.json.*", "*.gz", "*.trace", "*.sqlite", "*.nsys-rep")


def read_trace(path: str | PathLike[str], progress: Progress | None = None) -> Trace:
    """The recording in a file, or in all files of a folder, whatever wrote it.

    `progress` is called with (bytes done, bytes in all). What could not be read stands in the
    trace's `run.lost`. Raises UsageError where the path cannot be read and NotATraceError where
    no recording is in it, both in one line that names the path.
    """
    place = Path(path)
    if not place.exists():
        raise UsageError(f"no such file or folder: {shown(place)}")
    files = _files_in(place) if place.is_dir() else [place]
    advance = _counted(progress, sum(file.stat().st_size for file in files))
    documents: list[Document] = []
    lost: list[Lost] = []
    for file in files:
        try:
            read, damage = _read_file(file, advance)
        except BubblescopeError as error:
            if len(files) == 1:
                raise
            lost.append(Lost(f"file {shown(file.name)}", _without_path(error, file), damage=True))
        else:
            documents += read
            lost += damage
    if not documents:
        raise NotATraceError(f"no trace in {shown(place)}: {lost[0].what}: {lost[0].why}")
    return assembled(documents).with_lost(*lost)


def _files_in(folder: Path) -> list[Path]:
    files = sorted({file for name in _NAMES for file in folder.glob(name) if file.is_file()})
    if not files:
        inner = next((file.parent for name in _NAMES for file in folder.glob(f"*/{name}")), None)
        hint = f"; perhaps you mean {shown(inner)}" if inner else ""
        raise NotATraceError(f"no trace in {shown(folder)}: no file there is named like one{hint}")
    if len(files) > _MOST_FILES:
        raise NotATraceError(f"{shown(folder)} holds more than {_MOST_FILES} files; name a smaller folder")
    return files


def _counted(progress: Progress | None, total: int) -> Callable[[int], None] | None:
    if progress is None:
        return None
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        progress(done, max(total, done))

    return advance


def _read_file(path: Path, advance: Callable[[int], None] | None) -> tuple[list[Document], list[Lost]]:
    with Source(path, advance) as source:
        window = Window(source)
        head = window.head(_HEAD)
        _refuse_other_files(path, head)
        damage = Damage()
        fields: list[str] = []
        parts = list(_parts(window, damage, fields))
    lost = list(_damage_in_words(damage, path))
    parts = [part for part in parts if part.slices or part.others]
    if not parts:
        raise NotATraceError(_why_nothing(path, fields, damage))
    if not any(part.slices for part in parts):
        raise NotATraceError(f"no slices in this trace: {shown(path)} holds only instants, counters or names")
    return [Document(shown(path.name), part) for part in parts], lost


def _parts(window: Window, damage: Damage, fields: list[str]) -> Iterator[Part]:
    """The documents of a file; `fields` takes the first names of fields that are met."""
    part = Part()
    for item in read_json(window, damage):
        if isinstance(item, DocumentStart):
            part = Part()
            yield part
        elif isinstance(item, list):
            part.add(item)
        elif isinstance(item, Field):
            if len(fields) < _MOST_NAMED_FIELDS or item.key in _FOREIGN:
                fields.append(item.key)
            if item.key in FIELDS and item.value is not None:
                part.fields[item.key] = item.value
        elif isinstance(item, EventsStart) and len(fields) < _MOST_NAMED_FIELDS:
            fields.append("traceEvents")


def _refuse_other_files(path: Path, head: bytes) -> None:
    for magic, name in _NOT_READ_YET.items():
        if head.startswith(magic):
            raise NotATraceError(f"not read yet: {shown(path)} is {name}; export a Chrome trace instead")
    if path.suffix in _NOT_READ_NAMES:
        name = _NOT_READ_NAMES[path.suffix]
        raise NotATraceError(f"not read yet: {shown(path)} is {name}; export a Chrome trace instead")
    other = looks_like(head)
    if other:
        raise NotATraceError(f"not a trace: {shown(path)} looks like {other}")


def _why_nothing(path: Path, fields: Sequence[str], damage: Damage) -> str:
    foreign = next((name for key, name in _FOREIGN.items() if key in fields), None)
    if foreign and "traceEvents" not in fields:
        return f"not a timeline: {shown(path)} looks like {foreign}"
    if fields and "traceEvents" not in fields:
        return f"not a timeline: {shown(path)} looks like JSON with the fields {shown(', '.join(fields))}"
    if damage.cut:
        return f"empty trace: {shown(path)} breaks off at byte {damage.cut[0]} before its first event"
    if damage.broken:
        return f"not a timeline: {shown(path)} is a JSON list whose entries are no events"
    return f"empty trace: there is no event in {shown(path)}"


def _damage_in_words(damage: Damage, path: Path) -> Iterator[Lost]:
    file = shown(path.name)
    if damage.cut:
        yield Lost(f"the rest of {file}", f"{damage.cut[1]}, at byte {damage.cut[0]}", damage=True)
    if damage.broken:
        why = f"they are no JSON or no events; the first is at byte {damage.broken_at} of {file}"
        yield Lost("broken events", why, damage.broken, damage=True)
    if damage.field is not None:
        yield Lost(f"fields of {file}", f"what stands at byte {damage.field} is no JSON", damage=True)
    if damage.repairs.text:
        yield Lost("text that is not UTF-8", f"it was replaced, in {file}", damage.repairs.text)
    if damage.repairs.numbers:
        yield Lost("numbers written as inf or nan", f"read as missing, in {file}", damage.repairs.numbers)


def _without_path(error: BubblescopeError, path: Path) -> str:
    return str(error).replace(shown(path), shown(path.name))
