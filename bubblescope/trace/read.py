"""Reading a recording: one file, or a folder with one file per rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path

from bubblescope.errors import BubblescopeError, NotATraceError, UsageError
from bubblescope.trace.assembly import assembled
from bubblescope.trace.model import Lost, Trace
from bubblescope.trace.recording_file import Content, read_file
from bubblescope.trace.source import Progress, shown

_MOST_FILES = 10_000
#: More than any pipeline has; each costs the analysis some time, however little it did.
_MOST_DEVICES = 256
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
    advance = _counted(progress, sum(map(_size, files)))
    contents: dict[Path, Content] = {}
    lost: list[Lost] = []
    for file in files:
        try:
            contents[file] = read_file(file, advance)
        except BubblescopeError as error:
            if len(files) == 1:
                raise
            lost.append(Lost(f"file {shown(file.name)}", _without_path(error, file), damage=True))
    if not contents:
        raise NotATraceError(f"no trace in {shown(place)}: {lost[0].what}: {lost[0].why}")
    lost += [said for content in contents.values() for said in content.lost]
    return _whole(contents, place).with_lost(*lost)


def _whole(contents: Mapping[Path, Content], place: Path) -> Trace:
    documents = [document for content in contents.values() for document in content.documents]
    own = [recording for content in contents.values() for recording in content.own]
    if own and len(own) + len(documents) > 1:
        whole = next(shown(file.name) for file, content in contents.items() if content.own)
        raise NotATraceError(
            f"{shown(place)} holds several recordings, not the ranks of one; name a file, for example {whole}"
        )
    trace = own[0].trace() if own else assembled(documents)
    if len(trace.run.devices) > _MOST_DEVICES:
        raise NotATraceError(
            f"{shown(place)} shows {len(trace.run.devices)} devices; up to {_MOST_DEVICES} can be looked at"
        )
    return trace


def _files_in(folder: Path) -> list[Path]:
    files = sorted(
        {file for name in _NAMES for file in folder.glob(name) if file.is_file() or not file.exists()}
    )
    if not files:
        inner = next((file.parent for name in _NAMES for file in folder.glob(f"*/{name}")), None)
        hint = f"; perhaps you mean {shown(inner)}" if inner else ""
        raise NotATraceError(f"no trace in {shown(folder)}: no file there is named like one{hint}")
    if len(files) > _MOST_FILES:
        raise NotATraceError(f"{shown(folder)} holds more than {_MOST_FILES} files; name a smaller folder")
    return files


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _counted(progress: Progress | None, total: int) -> Callable[[int], None] | None:
    if progress is None:
        return None
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        progress(done, max(total, done))

    return advance


def _without_path(error: BubblescopeError, path: Path) -> str:
    return str(error).replace(shown(path), shown(path.name))
