"""Driving the recorded server while it runs, and ending it as its user would: with Ctrl-C."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

from bubblescope.errors import BubblescopeError
from bubblescope.load.drive import Measured, Stopped, drive
from bubblescope.load.plan import Load
from bubblescope.load.server import LoadError, Server

#: A server that has not ended so long after Ctrl-C is asked again, more firmly.
_PATIENCE_SECONDS = 30.0


class Driver:
    """Carries out a load in a thread of its own.

    measured: what came of it; None if it failed or was stopped. failure: why, if it failed.
    """

    def __init__(self, load: Load, say: Callable[[str], None]) -> None:
        self.measured: Measured | None = None
        self.failure: str | None = None
        self._load = load
        self._say = say
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    def check(self) -> None:
        """Raise LoadError if something else answers already where the server shall be."""
        with Server(self._load.url) as server:
            if server.answers():
                raise LoadError(f"something answers at {server.url} already; choose another --port")

    def start(self) -> None:
        """Begin, now that the command runs."""
        self._thread.start()

    def command_ended(self) -> None:
        """Stop: there is nothing left to be driven."""
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            self.measured = drive(self._load, self._say, self._ended)
        except Stopped:
            return
        except Exception as error:
            if self._ended.is_set():
                return
            reason = str(error) if isinstance(error, BubblescopeError) else f"{type(error).__name__}: {error}"
            self.failure = reason
            self._say(reason)
        # The launcher passes on to the command what it is sent itself.
        for number in (signal.SIGINT, signal.SIGTERM):
            if not self._ended.is_set():
                os.kill(os.getpid(), number)
                self._ended.wait(_PATIENCE_SECONDS)
