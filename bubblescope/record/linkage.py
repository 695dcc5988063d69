"""Whether a program loads ggml, or has it linked into it, where no function of ggml can be stood in for."""

from __future__ import annotations

import mmap
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from struct import Struct, error
from typing import Any

from bubblescope.record.command_line import is_llama_cpp
from bubblescope.trace.model import Lost

_HEADER = Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = Struct("<IIQQQQQQ")
_SECTION = Struct("<IIQQQQIIQQ")
_ENTRY = Struct("<QQ")
_LOADED, _DYNAMIC, _LOADER = 1, 2, 3
_SYMBOLS = 2
_NEEDED, _STRINGS = 1, 5
_MOST_ENTRIES = 10_000
#: Of a command, and of a text in it, so many words may be programs.
_MOST_WORDS = 200
#: A file of ggml, which its assertions name.
_TRACE_OF_GGML = b"ggml-backend"


#: Names by which the preloaded library finds ggml's devices, the last being the guard of its registry, and
#: one that older ggml lacks, whose tables tell too little.
_FOUND_BY = (
    b"llama_decode",
    b"ggml_backend_tensor_set_2d",
    b"ggml_graph_get_tensor",
    b"ggml_backend_dev_count",
    b"ggml_backend_dev_get",
    b"_ZGVZL7get_regvE3reg",
)
_ONLY_TABLES = (
    "llama.cpp is linked into its program, where only what goes through ggml's tables shows: no sampling, "
    "not which ubatches are of one llama_decode, nothing of the model, nor what -b and -ub are by default"
)


@dataclass(frozen=True)
class Inside:
    """A program that ggml is linked into.

    shows_tables: a library can be loaded beside it and find ggml's tables by the program's symbols.
    """

    file: str
    shows_tables: bool


def with_ggml_inside(command: Sequence[str], path: str | None) -> Inside | None:
    """The program of llama.cpp that a command starts, if ggml is linked into it; else None.

    path: where programs are looked for, as PATH.
    """
    file = next((file for word, file in _programs(command, path) if is_llama_cpp(word)), None)
    return _inside(file) if file is not None else None


def linked_against_ggml(command: Sequence[str], path: str | None) -> bool:
    """Whether a command names a program that loads ggml's libraries, whatever it is called."""
    return any(_loads_ggml(file) for _, file in _programs(command, path))


def _programs(command: Sequence[str], path: str | None) -> Iterator[tuple[str, str]]:
    """The words of a command that are programs, and their files."""
    for word in (word for text in command[:_MOST_WORDS] for word in text.split()[:_MOST_WORDS]):
        file = shutil.which(word, path=path)
        if file is not None:
            yield word, file


def lost(told: Mapping[str, Any]) -> Iterator[Lost]:
    """What a recording lacks of which only ggml's tables were seen."""
    if told.get("llama_seen_by") == "tables":
        yield Lost("host activity", _ONLY_TABLES)


def _inside(file: str) -> Inside | None:
    try:
        with _elf(file) as data:
            if data is None or _asks_for_ggml(data):
                return None
            return Inside(file, _shows_tables(data)) if data.find(_TRACE_OF_GGML) >= 0 else None
    except (OSError, ValueError, error):
        return None


def _loads_ggml(file: str) -> bool:
    try:
        with _elf(file) as data:
            return data is not None and _asks_for_ggml(data)
    except (OSError, ValueError, error):
        return False


@contextmanager
def _elf(file: str) -> Iterator[mmap.mmap | None]:
    """The bytes of an ELF file; None of any other."""
    with open(file, "rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
        yield data if data[:4] == b"\x7fELF" else None


def _asks_for_ggml(data: mmap.mmap) -> bool:
    return any(name.startswith((b"libggml", b"libllama")) for name in _needed(data))


def _shows_tables(data: mmap.mmap) -> bool:
    """Whether the program loads libraries, and its symbols have the names that are needed."""
    if all(segment[0] != _LOADER for segment in _segments(data)):
        return False
    header = _HEADER.unpack_from(data)
    sections = [
        _SECTION.unpack_from(data, header[6] + number * _SECTION.size) for number in range(header[12])
    ]
    for section in sections:
        if section[1] == _SYMBOLS and section[6] < len(sections):
            begin, size = sections[section[6]][4:6]
            return all(data.find(b"\0" + name + b"\0", begin, begin + size) >= 0 for name in _FOUND_BY)
    return False


def _segments(data: mmap.mmap) -> list[tuple[int, ...]]:
    header = _HEADER.unpack_from(data)
    return [_SEGMENT.unpack_from(data, header[5] + number * _SEGMENT.size) for number in range(header[10])]


def _needed(data: mmap.mmap) -> Iterator[bytes]:
    """The names of the libraries that an ELF file of 64 bits is linked against."""
    segments = _segments(data)
    entries = [
        _ENTRY.unpack_from(data, segment[2] + number * _ENTRY.size)
        for segment in segments
        if segment[0] == _DYNAMIC
        for number in range(min(segment[5] // _ENTRY.size, _MOST_ENTRIES))
    ]
    strings = next((value for tag, value in entries if tag == _STRINGS), None)
    for kind, _, offset, address, _, size, *_ in segments:
        if kind == _LOADED and strings is not None and address <= strings < address + size:
            begin = offset + strings - address
            for tag, value in entries:
                if tag == _NEEDED:
                    yield data[begin + value : data.find(b"\0", begin + value)]
