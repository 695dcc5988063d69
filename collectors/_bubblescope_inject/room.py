"""Keeping a spool folder within its bounds: the oldest files go, and their events are counted."""

from __future__ import annotations

import fcntl
import os
from typing import NamedTuple

from .layout import COUNT, DROPPED_AT, EMPTY, HEADER_SIZE, SLOT, SUFFIX


class Entry(NamedTuple):
    """A spool file as its name tells it: created at wall-clock ns, by which process, its how manyth."""

    created: int
    process: str
    number: int
    path: str


def entries(folder: str) -> list[Entry]:
    """The spool files of a folder, oldest first; what has another kind of name is no spool file."""
    return sorted(entry for name in os.listdir(folder) if (entry := _entry(folder, name)))


def make_room(folder: str, need: int, max_bytes: int, oldest_ns: int) -> int:
    """Remove the oldest files until `need` more bytes fit, and those that end before `oldest_ns`.

    Returns how many events went with them. Files that a process still writes to stay.
    """
    found = entries(folder)
    sizes = {entry.path: _size(entry.path) for entry in found}
    successors = {(entry.process, entry.number - 1): entry for entry in found}
    excess = sum(sizes.values()) + need - max_bytes
    dropped = 0
    for entry in found:
        successor = successors.get((entry.process, entry.number))
        outdated = successor is not None and successor.created < oldest_ns
        if (excess > 0 or outdated) and (successor is not None or not in_use(entry.path)):
            dropped += _remove(entry.path, last=successor is None)
            excess -= sizes[entry.path]
    return dropped


def in_use(path: str) -> bool:
    """Whether a process, in whatever container of this host, still has the file open to write."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _entry(folder: str, name: str) -> Entry | None:
    created, _, rest = name.removesuffix(SUFFIX).partition("-")
    process, _, number = rest.rpartition("-")
    if name.endswith(SUFFIX) and process and created.isdecimal() and number.isdecimal():
        return Entry(int(created), process, int(number), os.path.join(folder, name))
    return None


def _remove(path: str, last: bool) -> int:
    """Remove a file and return how many events went with it.

    All but a process's last file are full. The last one also holds what that process had dropped,
    which nobody else goes on counting.
    """
    try:
        with open(path, "rb") as file:
            data = file.read() if last else b""
            slots = (os.fstat(file.fileno()).st_size - HEADER_SIZE) // SLOT
        os.unlink(path)
    except OSError:
        return 0  # another process was faster, and counts it
    if not last or len(data) < HEADER_SIZE:
        return max(0, slots)
    empty = data[HEADER_SIZE + SLOT - 1 :: SLOT].count(EMPTY)
    return slots - empty + int(COUNT.unpack_from(data, DROPPED_AT)[0])


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
