"""What recording says to the person who waits, on stderr and beside the command's own output."""

from __future__ import annotations

import contextlib
import sys

from bubblescope.trace.source import shown

_CLEAR_LINE = "\r\x1b[K"


class Messages:
    """Lines that stay, and on a terminal one that goes: what is being done now."""

    def __init__(self) -> None:
        self._doing = False
        self._terminal = sys.stderr.isatty()

    def say(self, message: str) -> None:
        """One line. Nobody may be there to read it."""
        self._write(f"{_CLEAR_LINE if self._doing else ''}bubblescope: {shown(message)}\n")
        self._doing = False

    def doing(self, what: str) -> None:
        """Show what is being done, until something is said."""
        if self._terminal:
            self._write(f"{_CLEAR_LINE}bubblescope: {shown(what)}")
            self._doing = True

    def done(self) -> None:
        """Wipe what was being done."""
        if self._doing:
            self._write(_CLEAR_LINE)
            self._doing = False

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(text)
            sys.stderr.flush()
