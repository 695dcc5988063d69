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

_GGML = (
    "ggml/ggml.c", "ggml/tables.c", "ggml/buffers.c", "ggml/marks.c", "ggml/cuda_time.c", "ggml/devices.c",
    "ggml/ubatch.c", "ggml/rpc_server.c", "ggml/launches.c", "ggml/last_words.c", "ggml/facts.c",
    "ggml/json.c", "ggml/api.c", "ggml/symbols.c", "ggml/symtab.c", "ggml/inside.c", "ggml/state.c",
)  # fmt: skip
_CUPTI = ("cupti.c", "cupti_open.c", "cupti_names.c", "cupti_devices.c")

LIBRARIES: dict[str, Library] = {
    "ggml": Library("ggml", (*_GGML, *SPOOL), "what llama.cpp does", ("-lpthread", "-ldl", "-lm")),
    "cupti": Library("cupti", (*_CUPTI, *SPOOL), "the devices' own work"),
}
