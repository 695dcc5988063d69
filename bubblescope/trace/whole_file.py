"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import IO

from bubblescope.errors import UsageError
from bubblescope.trace.source import shown


@contextlib.contextmanager
def whole_file(path: str | PathLike[str], force: bool = False) -> Iterator[IO[bytes]]:
    """A file to write; it takes its name at the end of the block, unless that is left by an error.

    Raises UsageError where it exists and `force` is not given, and where it cannot be written.
    """
    target = Path(os.path.realpath(path))
    refuse_to_overwrite(target, force)
    temporary = target.with_name(f".{target.name[:64]}.{os.getpid()}.part")
    try:
        with _new_file(temporary) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except OSError as error:
        raise UsageError(f"cannot write {shown(target)}: {error.strerror or error}") from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def refuse_to_overwrite(path: str | PathLike[str], force: bool) -> None:
    """UsageError if `whole_file` would refuse to replace what is there: to be asked before long work."""
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise UsageError(f"cannot write {shown(target)}: it is no regular file")
    if target.exists() and not force:
        raise UsageError(f"{shown(target)} exists; --force overwrites it")


def _new_file(path: Path) -> IO[bytes]:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb")
