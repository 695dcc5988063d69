"""Whether this process records, and with which writer. Decided once, when it is imported."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

from .layout import REFUSED_AT, UNWRITTEN_AT
from .spoolfile import NoRoomError, SpoolFile
from .writer import Writer, from_environment

#: None where nothing is to be recorded.
writer: Final[Writer | None] = from_environment(os.environ)

#: Files of the parents of this process. Their mappings stay: unmapping closes a descriptor
#: whose number may be somebody else's by now.
_inherited: list[SpoolFile] = []


def write(event: Callable[[SpoolFile], None]) -> None:
    """Write what `event` puts, if this process records; never raises."""
    if writer is not None:
        safely(writer.write, event)


def safely(look: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """What `look` returns; None, and one event more is counted as lost, where it raises."""
    try:
        return look(*args, **kwargs)
    except Exception as error:
        lost(error)
        return None


def lost(error: Exception) -> None:
    """Count an event that could not be written."""
    if writer is not None:
        writer.file.add(UNWRITTEN_AT if isinstance(error, NoRoomError) else REFUSED_AT)


def _after_fork() -> None:
    if writer is not None:
        _inherited.append(writer.file)
        writer.start()


os.register_at_fork(after_in_child=_after_fork)
