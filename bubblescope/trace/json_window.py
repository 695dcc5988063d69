"""A sliding window over JSON text: what stands at the present position, in memory that stays small."""

from __future__ import annotations

import json
import re

from bubblescope.trace.source import Source

_CHUNK = 1 << 16
_LONGEST_KEY = 1 << 12

BLANK = re.compile(rb"[ \t\r\n]*")
#: Commas are passed over as if they were blank: a list with one too many is read all the same.
BETWEEN = re.compile(rb"[ \t\r\n,]*")
#: A byte order mark may stand before every document.
BETWEEN_DOCUMENTS = re.compile(rb"(?:[ \t\r\n,]|\xef\xbb\xbf)*")

_STRING_REST = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)
#: A whole string, a string that the text breaks off in, or a bracket.
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|["{}\[\]]', re.DOTALL)
_STEPS = {b"{": 1, b"[": 1, b"}": -1, b"]": -1}
_SCALAR_END = re.compile(rb'["{}\[\],:\s]')


class MalformedError(Exception):
    """The text at the window's position is not what JSON asks for; says why."""


class Window:
    """The part of a file that is being read.

    data: uncompressed bytes at hand; position: how many of them are behind us.
    """

    def __init__(self, source: Source, chunk: int = _CHUNK) -> None:
        self.data = b""
        self.position = 0
        self._source = source
        self._chunk = chunk
        self._ended = False

    @property
    def offset(self) -> int:
        """The position in the uncompressed file."""
        return self._source.offset - len(self.data) + self.position

    @property
    def broken(self) -> str | None:
        """Why the bytes ended before they should have, once they ended."""
        return self._source.broken if self._ended else None

    def fill(self, size: int) -> bool:
        """Have at least `size` bytes ahead, fewer only at the end; whether any were added."""
        missing = size - (len(self.data) - self.position)
        if missing <= 0 or self._ended:
            return False
        wanted = max(missing, self._chunk)
        more = self._source.read(wanted)
        self._ended = len(more) < wanted
        self.data = self.data[self.position :] + more
        self.position = 0
        return bool(more)

    def head(self, size: int) -> bytes:
        """The next `size` bytes, fewer only at the end."""
        self.fill(size)
        return self.data[self.position : self.position + size]

    def at_end(self, size: int) -> bool:
        """Whether nothing comes after the next `size` bytes."""
        return self._ended and len(self.data) - self.position <= size

    def peek(self, skip: re.Pattern[bytes] = BLANK) -> bytes:
        """The next byte after what `skip` matches; b"" at the end."""
        while True:
            match = skip.match(self.data, self.position)
            self.position = match.end() if match else self.position
            if self.position < len(self.data):
                return self.data[self.position : self.position + 1]
            if not self.fill(1):
                return b""

    def find(self, pattern: re.Pattern[bytes], longest: int = 256) -> bool:
        """Go behind the next match of a pattern that spans at most `longest` bytes."""
        while True:
            match = pattern.search(self.data, self.position)
            if match:
                self.position = match.end()
                return True
            self.position = max(self.position, len(self.data) - longest)
            if not self.fill(longest + 1):
                return False

    def key(self) -> str:
        """The name of a field, through its colon."""
        text = self.value(_LONGEST_KEY) if self.peek() == b'"' else None
        if text is None or self.peek() != b":":
            raise MalformedError("a field without a name")
        self.position += 1
        try:
            return str(json.loads(text, strict=False))
        except ValueError:
            return ""

    def value(self, longest: int) -> bytes | None:
        """Pass over one JSON value of any length; its text if that is not too long."""
        self.peek()
        taken = bytearray()
        whole, done = True, False
        depth, in_string = 0, False
        while not done:
            if self.position >= len(self.data) - in_string and not self.fill(2):
                raise MalformedError("the file ends inside a field")
            end, depth, in_string, done = through_value(self.data, self.position, depth, in_string)
            if whole:
                taken += self.data[self.position : end]
                whole = len(taken) <= longest
            self.position = end
        return bytes(taken) if whole else None


def through_value(data: bytes, place: int, depth: int, in_string: bool) -> tuple[int, int, bool, bool]:
    """How far a value goes on in this piece of text: the place, the state there, whether it ended.

    It begins at `place` with depth 0 and outside a string; the state carries it over to the next piece.
    """
    if in_string:
        rest = _STRING_REST.match(data, place)
        place = rest.end() if rest else place
        if data[place : place + 1] != b'"':
            return place, depth, True, False  # the text ends here, or after a backslash
        place += 1
        if not depth:
            return place, 0, False, True
    elif not depth and data[place] not in b'"{[':
        end = _SCALAR_END.search(data, place)
        return (end.start(), 0, False, True) if end else (len(data), 0, False, False)
    for match in _TOKEN.finditer(data, place):
        token = match.group()
        depth += _STEPS.get(token, 0)
        if token == b'"':
            return match.end(), depth, True, False
        if depth <= 0:
            return match.end(), 0, False, True
    return len(data), depth, False, False
