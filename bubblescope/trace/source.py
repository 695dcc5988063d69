"""A file as a stream of bytes: gzip told by content, cut-off files read as far as they go."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from bubblescope.errors import UsageError

#: Called with (bytes done, bytes in all) of the files as they lie on disk.
Progress = Callable[[int, int], None]

_GZIP = b"\x1f\x8b"
_READ = 1 << 16


def shown(path: Path | str) -> str:
    """A path for people: control characters escaped, so that it can neither fold nor colour a line."""
    text = str(path)
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")


class Source:
    """The uncompressed bytes of one file, in order.

    broken: why the bytes end before they should, or None.
    offset: how many uncompressed bytes were handed out.
    """

    def __init__(self, path: Path, advance: Callable[[int], None] | None = None) -> None:
        self.path = path
        self.broken: str | None = None
        self.offset = 0
        self._advance = advance
        self._pending = b""
        self._ended = False
        try:
            self._file: BinaryIO = path.open("rb")
        except OSError as error:
            raise UsageError(f"cannot read {shown(path)}: {error.strerror}") from None
        try:
            self._pending = self._raw(len(_GZIP))
        except BaseException:
            self._file.close()
            raise
        self._inflate = zlib.decompressobj(31) if self._pending.startswith(_GZIP) else None

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, size: int) -> bytes:
        """At most `size` bytes, fewer only at the end; b"" after it."""
        parts: list[bytes] = []
        while size > 0:
            part = self._inflated(size) if self._inflate else self._plain(size)
            if not part:
                break
            parts.append(part)
            size -= len(part)
            self.offset += len(part)
        return b"".join(parts)

    @property
    def packed(self) -> bool:
        """Whether the file holds its bytes compressed."""
        return self._inflate is not None

    def _plain(self, size: int) -> bytes:
        if self._pending:
            part, self._pending = self._pending[:size], self._pending[size:]
            return part
        return self._raw(size)

    def _inflated(self, size: int) -> bytes:
        """The next piece of a gzip file, which may be several gzip streams one after another."""
        while self._inflate is not None and self.broken is None:
            data = self._pending or self._raw(_READ)
            if self._inflate.eof:
                data = data.lstrip(b"\0")
                if not data and self._ended:
                    return b""
                if not data:
                    self._pending = b""
                    continue
                self._inflate = zlib.decompressobj(31)
            elif not data:
                self.broken = "the gzip stream is cut off"
                return self._inflate.flush()
            before = self._inflate.copy()
            try:
                part = self._inflate.decompress(data, size)
            except zlib.error:
                self.broken = "the gzip stream is damaged"
                return _up_to_the_damage(before, data, size)
            self._pending = self._inflate.unused_data or self._inflate.unconsumed_tail
            if part:
                return part
        return b""

    def _raw(self, size: int) -> bytes:
        if self._ended:
            return b""
        try:
            data = self._file.read(size)
        except OSError as error:
            if not self.offset:
                raise UsageError(f"cannot read {shown(self.path)}: {error.strerror}") from None
            self.broken, data = f"reading failed: {error.strerror}", b""
        self._ended = not data
        if self._advance and data:
            self._advance(len(data))
        return data


def _up_to_the_damage(inflate: zlib._Decompress, data: bytes, size: int) -> bytes:
    """What a damaged piece still yields: an error makes zlib drop the output of the whole call."""
    out = b""
    for position in range(len(data)):
        if len(out) >= size:
            break
        try:
            out += inflate.decompress(data[position : position + 1], size - len(out))
        except zlib.error:
            break
    return out
