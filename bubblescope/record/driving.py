"""Driving the recorded server while it runs, and ending it as its user would: with Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable

from bubblescope.collectors._bubblescope_inject import layout
from bubblescope.collectors._bubblescope_inject.writer import Writer
from bubblescope.errors import BubblescopeError
from bubblescope.load.drive import Measured, Stopped, drive
from bubblescope.load.plan import Load
from bubblescope.load.server import Answer, LoadError, Server

#: A server that broke off may be ending of its own accord, with a status and last words of its own.
_OWN_END_SECONDS = 3.0
#: A server that has not ended so long after Ctrl-C is asked again, more firmly.
_PATIENCE_SECONDS = 30.0


class Driver:
    """Carries out a load in a thread of its own, and writes down the requests as their client saw them.

    Collectors leave these requests out: what happens before a server knows of a request, and after
    it answered, belongs to the time to first token, too.

    measured: what came of it; None if it failed or was stopped. failure: why, if it failed.
    """

    def __init__(self, load: Load, say: Callable[[str], None]) -> None:
        self.measured: Measured | None = None
        self.failure: str | None = None
        self._load = load
        self._say = say
        self._given_up = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self._writer: Writer | None = None
        self._answered = 0

    def check(self) -> None:
        """Raise LoadError if something else answers already where the server shall be."""
        if asyncio.run(_answers(self._load.url)):
            raise LoadError(f"something answers at {self._load.url} already; choose another --port")

    def start(self, writer: Writer) -> None:
        """Begin, now that the command runs."""
        self._writer = writer
        self._thread.start()

    def give_up(self) -> None:
        """Stop, also in the middle of a request: a server that is ended may wait for its clients."""
        self._given_up.set()

    def command_ended(self) -> None:
        """Stop: there is nothing left to be driven."""
        unasked = not self._given_up.is_set()
        self._given_up.set()
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join()
            if unasked and self.measured is None and self.failure is None:
                answered = f"{self._answered or 'none'} of {self._load.requests} requests"
                self._say(f"the command ended when {answered} at {self._load.url} had been answered")
        self._writer = None  # and with it the hold on its file

    def _run(self) -> None:
        try:
            self.measured = drive(self._load, self._say, self._write, self._given_up)
        except Stopped:
            return
        except Exception as error:
            if self._given_up.is_set():
                return
            reason = str(error) if isinstance(error, BubblescopeError) else f"{type(error).__name__}: {error}"
            self.failure = reason
            self._say(reason)
            self._ended.wait(_OWN_END_SECONDS)
        # The launcher passes on to the command what it is sent itself.
        for number in (signal.SIGINT, signal.SIGTERM):
            if not self._ended.is_set():
                os.kill(os.getpid(), number)
                self._ended.wait(_PATIENCE_SECONDS)

    def _write(self, answer: Answer, is_warmup: bool) -> None:
        arrived = answer.sent_ns, answer.prompt_tokens or self._load.prompt_tokens, layout.ARRIVED
        first = answer.first_token_ns, layout.UNKNOWN, layout.FIRST_TOKEN
        ended = answer.end_ns, answer.output_tokens or layout.UNKNOWN, layout.ENDED
        for time_ns, tokens, event in (arrived, first, ended):
            _put(self._writer, answer.name, time_ns, tokens, event, is_warmup)
        self._answered += not is_warmup


async def _answers(url: str) -> bool:
    async with Server(url) as server:
        return await server.answers()


def _put(writer: Writer | None, name: str, time_ns: int, tokens: int, event: int, is_warmup: bool) -> None:
    if writer is not None:
        writer.write(
            lambda file: file.put(
                layout.REQUEST_SLOT, time_ns, tokens, file.text(name, layout.LONGEST_NAME), event, is_warmup,
                layout.REQUEST,
            )
        )  # fmt: skip
