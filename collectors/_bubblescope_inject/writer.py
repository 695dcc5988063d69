"""The spool files of this process, one after the other, and what each of them must begin with."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Mapping

from .layout import (
    COMPLETE,
    DROPPED_AT,
    FACT,
    FACT_SLOT,
    LONGEST_NAME,
    LONGEST_TEXT,
    STAGE,
    STAGE_SLOT,
)
from .room import make_room
from .spoolfile import NoRoomError, SpoolFile, create, nowhere

FOLDER_VARIABLE = "BUBBLESCOPE_SPOOL"
MAX_BYTES_VARIABLE = "BUBBLESCOPE_SPOOL_MAX_BYTES"
KEEP_SECONDS_VARIABLE = "BUBBLESCOPE_SPOOL_KEEP_SECONDS"

DEFAULT_MAX_BYTES = 256 << 20
#: A file is at most this part of the whole, so that dropping the oldest one loses little.
SHARE = 64
SMALLEST, FIRST, LARGEST = 16 << 10, 64 << 10, 4 << 20
MOST_FACTS = 256
#: How long an event may wait for another thread that opens the next file.
PATIENCE_SECONDS = 0.01
RETRY_NS = 1_000_000_000

#: The numbers of a STAGE slot, device, capability, number of the slot.
_Declared = tuple[tuple[int, ...], str, str, int]


class Writer:
    """Writes this process's events into a folder.

    file: where the next event goes. Whoever finds it full asks `next_file` for another.
    process: names this process in the names of its files.
    """

    def __init__(self, folder: str, max_bytes: int, keep_ns: int | None) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._keep_ns = keep_ns
        self._stages: list[_Declared] = []
        self._facts: dict[str, tuple[int, str]] = {}
        self.start()

    def start(self) -> None:
        """Begin anew, with a first file yet to be opened, as a forked child must."""
        self.process = f"{os.getpid()}-{os.urandom(4).hex()}"
        self.file = nowhere(self.process)
        self._lock = threading.Lock()
        self._retry_ns = 0

    def write(self, event: Callable[[SpoolFile], None]) -> None:
        """Write what `event` puts; if the file is full it is called again with the next one.

        Raises NoRoomError where there is no room.
        """
        file = self.file
        try:
            event(file)
        except NoRoomError:
            event(self.next_file(file))

    def add_stage(self, numbers: tuple[int, ...], device: str, capability: str) -> int:
        """Declare a stage; returns its number in the files of this process.

        numbers: as in STAGE_SLOT. Raises struct.error if one of them does not fit.
        """
        stage = (numbers, device, capability, len(self._stages))
        STAGE_SLOT.pack(*numbers, 0, 0, len(self._stages), STAGE, COMPLETE)
        self._stages.append(stage)
        self._declare(lambda file: _put_stage(file, stage))
        return stage[-1]

    def add_fact(self, name: str, value: str) -> None:
        """Write a fact, JSON, and keep it for the files to come. Raises ValueError if they are too many."""
        if len(self._facts) >= MOST_FACTS and name not in self._facts:
            raise ValueError(f"more than {MOST_FACTS} facts")
        fact = self._facts[name] = (time.monotonic_ns(), value)
        self._declare(lambda file: _put_fact(file, name, *fact))

    def next_file(self, full: SpoolFile) -> SpoolFile:
        """The file after a full one, opened by the first thread that asks; raises NoRoomError."""
        if not self._lock.acquire(timeout=PATIENCE_SECONDS):
            raise NoRoomError
        try:
            if self.file is full:
                self.file = self._open_next(full)
            return self.file
        finally:
            self._lock.release()

    def _declare(self, declaration: Callable[[SpoolFile], None]) -> None:
        """Write what every file must hold. A new one begins with it, now or when there is room again."""
        file = self.file
        try:
            declaration(file)
        except NoRoomError:
            with contextlib.suppress(NoRoomError):
                self.next_file(file)

    def _open_next(self, full: SpoolFile) -> SpoolFile:
        if time.monotonic_ns() < self._retry_ns:
            raise NoRoomError
        try:
            file = self._create(full)
        except OSError:
            self._retry_ns = time.monotonic_ns() + RETRY_NS
            raise NoRoomError from None
        with contextlib.suppress(NoRoomError):
            for stage in list(self._stages):
                _put_stage(file, stage)
            for name, fact in list(self._facts.items()):
                _put_fact(file, name, *fact)
        return file

    def _create(self, full: SpoolFile) -> SpoolFile:
        """Create the next file, smaller than it should be if the disk is nearly full."""
        number = full.number + 1
        share = self._max_bytes // SHARE // SMALLEST * SMALLEST
        size = min(FIRST << min(number, 16), max(SMALLEST, min(LARGEST, share)))
        oldest_ns = time.time_ns() - self._keep_ns if self._keep_ns is not None else 0
        # Twice as much: another process may be opening one of its own right now.
        dropped = make_room(self._folder, 2 * size, self._max_bytes, oldest_ns)
        try:
            file = create(self._folder, self.process, number, size)
        except OSError:
            file = create(self._folder, self.process, number, SMALLEST)
        file.take_counts(full)
        file.add(DROPPED_AT, dropped)
        return file


def from_environment(environment: Mapping[str, str]) -> Writer | None:
    """The writer that the environment asks for, or None: then nothing is to be recorded."""
    folder = environment.get(FOLDER_VARIABLE)
    if not folder:
        return None
    keep_seconds = _positive(environment.get(KEEP_SECONDS_VARIABLE))
    return Writer(
        folder,
        _positive(environment.get(MAX_BYTES_VARIABLE)) or DEFAULT_MAX_BYTES,
        keep_seconds * 1_000_000_000 if keep_seconds else None,
    )


def _positive(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() and int(text) > 0 else None


def _put_stage(file: SpoolFile, stage: _Declared) -> None:
    numbers, device, capability, number = stage
    texts = (file.text(device, LONGEST_NAME), file.text(capability, LONGEST_NAME))
    file.put(STAGE_SLOT, *numbers, *texts, number, STAGE)


def _put_fact(file: SpoolFile, name: str, time_ns: int, value: str) -> None:
    file.put(FACT_SLOT, time_ns, file.text(name, LONGEST_NAME), file.text(value, LONGEST_TEXT), FACT)
