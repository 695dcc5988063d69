"""A disk that was full when the command ended, and what the recording then lacks."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bubblescope.collectors._bubblescope_inject.writer import SMALLEST
from bubblescope.trace.model import Lost

#: This fact is true where the disk was full.
FULL_FACT = "disk_full"
WHAT = "recording"
NOTHING = "the disk was full, so the command's processes had no room to write"
_LACKS = (
    "the disk was full when the command ended: whole processes may be missing, and the last events of "
    "others; name a file on another disk with -o"
)


def is_full(spool: Path) -> bool:
    """Whether there is no room for one more file, the smallest that a collector makes.

    A process without a file cannot leave word of what it had to say.
    """
    try:
        with tempfile.TemporaryFile(dir=spool) as file:
            os.posix_fallocate(file.fileno(), 0, SMALLEST)
    except OSError as error:
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return False


def lost(facts: Mapping[str, Any]) -> Iterator[Lost]:
    """What a recording lacks of which these facts are known."""
    if facts.get(FULL_FACT) is True:
        yield Lost(WHAT, _LACKS)
