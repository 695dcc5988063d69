"""One spool file: memory shared with the page cache, so that an event outlives its process.

Slots are handed out by a counter instead of a lock: an event never waits for another thread, and
a signal handler may record while its own thread does.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import mmap
import os
import socket
import time
from collections.abc import Iterator
from struct import Struct

from .layout import (
    COMPLETE,
    COUNT,
    DROPPED_AT,
    HEADER,
    HEADER_SIZE,
    LONGEST_TEXT,
    MAGIC,
    REFUSED_AT,
    SLOT,
    SUFFIX,
    TEXT,
    TEXT_PIECE,
    TEXT_SLOT,
    VERSION,
    VOID,
)


class NoRoomError(Exception):
    """The file has no free slot."""


class SpoolFile:
    """One mapped file of one process.

    buffer: the mapping.
    offsets: where the next events go; at or beyond `end` the file is full.
    process: whose file it is; a forked child is another process and must not write here.
    number: 0 for the first file of the process.
    """

    __slots__ = ("_text_numbers", "_texts", "buffer", "end", "number", "offsets", "process")

    def __init__(self, buffer: mmap.mmap | bytearray, process: str, number: int) -> None:
        self.buffer = buffer
        self.end = HEADER_SIZE + (len(buffer) - HEADER_SIZE) // SLOT * SLOT
        self.offsets: Iterator[int] = itertools.count(HEADER_SIZE, SLOT)
        self.process = process
        self.number = number
        self._texts: dict[str, int] = {}
        self._text_numbers = itertools.count()

    def put(self, slot: Struct, *values: object) -> None:
        """Write one complete event; raises NoRoomError."""
        offset = next(self.offsets)
        if offset >= self.end:
            raise NoRoomError
        try:
            slot.pack_into(self.buffer, offset, *values, COMPLETE)
        except Exception:
            self.void(offset)
            raise

    def void(self, offset: int) -> None:
        """Mark a slot as holding nothing, so that it is not taken for a torn one."""
        self.buffer[offset + SLOT - 2 : offset + SLOT] = bytes((VOID, COMPLETE))

    def text(self, text: str, longest: int) -> int:
        """The number of a text in this file, written here the first time it is used; raises NoRoomError."""
        number = self._texts.get(text)
        if number is None:
            number = next(self._text_numbers)
            data = text.encode("utf-8", "replace")[: min(longest, LONGEST_TEXT)]
            for piece, begin in enumerate(range(0, len(data) or 1, TEXT_PIECE)):
                self.put(TEXT_SLOT, data[begin : begin + TEXT_PIECE], number, len(data), piece, TEXT)
            self._texts[text] = number
        return number

    def add(self, at: int, count: int = 1) -> None:
        """Add to one of the header's counts."""
        COUNT.pack_into(self.buffer, at, COUNT.unpack_from(self.buffer, at)[0] + count)

    def take_counts(self, other: SpoolFile) -> None:
        """Go on counting where another file of the process stopped."""
        counts = slice(DROPPED_AT, REFUSED_AT + COUNT.size)
        self.buffer[counts] = other.buffer[counts]


def create(folder: str, process: str, number: int, size: int) -> SpoolFile:
    """A new file with its disk space already taken; raises OSError, also where there is none.

    Space is taken now because a mapped page that the disk has no room for would kill the engine.
    """
    wall = time.time_ns()
    path = os.path.join(folder, f"{wall:020d}-{process}-{number:06d}{SUFFIX}")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with contextlib.suppress(OSError):  # not every file system has locks
            # The mapping keeps a copy of the descriptor, and with it the lock, until the process ends.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.posix_fallocate(descriptor, 0, size)
        buffer = mmap.mmap(descriptor, size)
    except OSError:
        os.unlink(path)
        raise
    finally:
        os.close(descriptor)
    HEADER.pack_into(
        buffer, 0, MAGIC, VERSION, SLOT, HEADER_SIZE, os.getpid(), number, time.monotonic_ns(), wall,
        0, 0, 0, boot_id(), socket.gethostname().encode(errors="surrogateescape")[:64],
    )  # fmt: skip
    return SpoolFile(buffer, process, number)


def nowhere(process: str) -> SpoolFile:
    """The file before the first: always full, it only counts."""
    return SpoolFile(bytearray(HEADER_SIZE), process, -1)


def boot_id() -> bytes:
    """Names the clock: processes with one boot id read the same CLOCK_MONOTONIC."""
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            return file.read().strip()
    except OSError:
        return b""
