"""Whether a program has ggml linked into it, where a library that is loaded beside it sees nothing of it."""

from __future__ import annotations

import mmap
import shutil
from collections.abc import Iterator, Sequence
from struct import Struct, error

from bubblescope.record.command_line import is_llama_cpp

_HEADER = Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = Struct("<IIQQQQQQ")
_ENTRY = Struct("<QQ")
_LOADED, _DYNAMIC = 1, 2
_NEEDED, _STRINGS = 1, 5
_MOST_ENTRIES = 10_000
#: A file of ggml, which its assertions name.
_TRACE_OF_GGML = b"ggml-backend"


def with_ggml_inside(command: Sequence[str], path: str | None) -> str | None:
    """The program of llama.cpp that a command starts, if ggml is linked into it; else None.

    path: where programs are looked for, as PATH.
    """
    words = (word for text in command for word in text.split())
    program = next((word for word in words if is_llama_cpp(word)), None)
    file = shutil.which(program, path=path) if program is not None else None
    return file if file is not None and _has_ggml_inside(file) else None


def _has_ggml_inside(file: str) -> bool:
    try:
        with open(file, "rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
            if data[:4] != b"\x7fELF" or any(
                name.startswith((b"libggml", b"libllama")) for name in _needed(data)
            ):
                return False
            return data.find(_TRACE_OF_GGML) >= 0
    except (OSError, ValueError, error):
        return False


def _needed(data: mmap.mmap) -> Iterator[bytes]:
    """The names of the libraries that an ELF file of 64 bits is linked against."""
    header = _HEADER.unpack_from(data)
    at, count = header[5], header[10]
    segments = [_SEGMENT.unpack_from(data, at + number * _SEGMENT.size) for number in range(count)]
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
