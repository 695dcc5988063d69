"""How far reading has come, for a person who waits at a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

#: What takes less time than this needs no progress bar.
PATIENCE_S = 1.0


@contextmanager
def reading(console: Console | None = None) -> Iterator[Callable[[int, int], None]]:
    """A callback (bytes done, bytes in all) that draws a bar on stderr, where that is a terminal.

    The bar comes after a second and is wiped when the block ends.
    """
    console = console or Console(file=sys.stderr)
    columns = (TextColumn("Reading"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=console, transient=True)
    task = bar.add_task("read", total=None)
    begun = time.monotonic()

    def advance(done: int, total: int) -> None:
        bar.update(task, completed=done, total=total)
        if console.is_terminal and not bar.live.is_started and time.monotonic() - begun >= PATIENCE_S:
            bar.start()

    try:
        yield advance
    finally:
        if bar.live.is_started:
            bar.stop()
