"""Processes that an engine leaves behind: those that were started in a test's own folder."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

_PATIENCE_SECONDS = 60


def running(folder: Path) -> Iterator[tuple[str, int]]:
    """What the processes that were started in this folder call themselves, and their numbers."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink() == folder:
                yield (process / "cmdline").read_text().replace("\0", " "), int(process.name)
        except OSError:
            continue


def nothing_is_left_running(folder: Path) -> bool:
    """Wait until it is so; raises AssertionError if it does not come about."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while found := list(running(folder)):
        if time.monotonic() > deadline:
            raise AssertionError(f"still running: {found}")
        time.sleep(0.1)
    return True
