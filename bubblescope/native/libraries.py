"""The native libraries: what each is made of, and what a recording lacks without it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import bubblescope.collectors

FOLDER = Path(bubblescope.collectors.__file__).parent / "native"


@dataclass(frozen=True)
class Library:
    """A library and its sources.

    sources: files below `FOLDER`, C or C++ by their names.
    links: what the linker is told.
    gives: what a recording lacks where it cannot be built.
    """

    name: str
    sources: tuple[str, ...]
    gives: str
    links: tuple[str, ...] = ("-lpthread", "-ldl")


#: What every library that records is made of, too.
SPOOL = ("spool.c", "spool_file.c", "room.c")

_CUPTI = ("cupti.c", "cupti_open.c", "cupti_names.c", "cupti_devices.c")

LIBRARIES: dict[str, Library] = {
    "cupti": Library("cupti", (*_CUPTI, *SPOOL), "the devices' own work"),
}
