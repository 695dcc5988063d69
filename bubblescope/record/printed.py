"""What a command prints, where that can be read afterwards without touching it: in regular files."""

from __future__ import annotations

import os
import stat

#: As much of the end of each file as is looked at.
LONGEST = 1 << 20
_STDOUT, _STDERR = 1, 2
#: Our own lines stand in the same file.
_OURS = "bubblescope: "


class Printed:
    """The regular files among stdout and stderr, and where what is printed from now on begins in them."""

    def __init__(self) -> None:
        self._begins: dict[int, int] = {}
        known: list[os.stat_result] = []
        for descriptor in (_STDOUT, _STDERR):
            begin = _position(descriptor)
            if begin is not None:
                status = os.fstat(descriptor)
                if not any(os.path.samestat(status, other) for other in known):
                    self._begins[descriptor] = begin
                known.append(status)

    def end(self) -> str:
        """The last of what was printed; "" where it went elsewhere or cannot be read."""
        texts = [_end(descriptor, begin) for descriptor, begin in self._begins.items()]
        lines = [line for text in texts for line in text.splitlines() if not line.startswith(_OURS)]
        return "\n".join(lines)


def _position(descriptor: int) -> int | None:
    """Where the next byte will be written; None for what is no regular file."""
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return None
        # A file that is only appended to has its position set by each write.
        here = os.lseek(descriptor, 0, os.SEEK_CUR)
        return max(here, status.st_size) if _appends(descriptor) else here
    except OSError:
        return None


def _appends(descriptor: int) -> bool:
    import fcntl

    return bool(fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_APPEND)


def _end(descriptor: int, begin: int) -> str:
    # Opened anew: the descriptor is open for writing only, and shares its position with the command.
    try:
        with open(f"/proc/self/fd/{descriptor}", "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(begin, size - LONGEST))
            return file.read(LONGEST).decode("utf-8", "replace")
    except OSError:
        return ""
