"""Where a recording goes: the trace, and the spool folder beside it while it is made."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from bubblescope.errors import UsageError
from bubblescope.trace.source import shown

SPOOL_SUFFIX = ".spool"


@dataclass(frozen=True)
class Destination:
    """trace: the file to be written. force: replace it; append: keep what is in it and add to it."""

    trace: Path
    append: bool = False
    force: bool = False

    @property
    def spool(self) -> Path:
        return self.trace.with_name(self.trace.name + SPOOL_SUFFIX)

    def make_spool(self) -> Path:
        """Create the folder for the collectors' files; raises UsageError where that cannot be."""
        spool = self.spool.absolute()
        try:
            spool.mkdir(mode=0o700)
        except FileExistsError:
            raise UsageError(
                f"{shown(self.spool)} is left from an interrupted recording: `bubblescope merge "
                f"{shown(self.spool)}` makes a trace of it; then remove it"
            ) from None
        except OSError as error:
            raise UsageError(f"cannot record into {shown(self.spool.parent)}: {error.strerror}") from None
        return spool


def destination(output: str | None, append: bool | None = None, force: bool = False) -> Destination:
    """Where `-o`, or a dated name without it, leads; raises UsageError if something is in the way.

    append: None where the command has no such option.
    """
    if append and force:
        raise UsageError("--append keeps what is in the file and --force replaces it; give one of them")
    if output is None:
        return Destination(_dated())
    chosen = Destination(Path(output), bool(append), force)
    if chosen.trace.is_dir():
        raise UsageError(f"{shown(output)} is a folder; -o names the file to write")
    if chosen.trace.exists() and not (append or force):
        adding = "" if append is None else ", --append adds to it"
        raise UsageError(f"{shown(output)} exists; --force overwrites it{adding}")
    return chosen


def of_spool(spool: Path) -> str | None:
    """The trace that a spool folder was made for, if its name tells."""
    name = spool.name.removesuffix(SPOOL_SUFFIX)
    return str(spool.with_name(name)) if name not in ("", spool.name) else None


def _dated() -> Path:
    stem = time.strftime("bubblescope-%Y%m%d-%H%M%S")
    for again in range(1, 1000):
        path = Path(f"{stem}{f'-{again}' if again > 1 else ''}.json.gz")
        if not (path.exists() or Destination(path).spool.exists()):
            return path
    raise UsageError(f"{stem}.json.gz and its like exist; name another file with -o")
