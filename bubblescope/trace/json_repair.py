"""JSON that tools write and parsers refuse: what can be mended without guessing is mended.

Mended are bytes that are not UTF-8, raw control characters and lone surrogates inside strings,
and bare `inf`, `nan`, `Infinity` outside them. Nothing else is touched.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import msgspec

#: A whole string, or a bare word that stands for a number JSON does not have.
_TOKEN = re.compile(
    rb'"[^"\\]*(?:\\.[^"\\]*)*"|(?<![\w.])[-+]?(?:nan|inf(?:inity)?)(?![\w.])', re.IGNORECASE | re.DOTALL
)
#: Such a word between a colon and what ends a value.
_FIELD_NUMBER = re.compile(rb":\s*[-+]?(?:nan|inf(?:inity)?)(?P<end>\s*[,}])", re.IGNORECASE)
_SUSPICIOUS = re.compile(rb"[\x00-\x1f]|\\u[dD][89a-fA-F]")
_REPLACEMENT = "\ufffd"


@dataclass
class Repairs:
    """What was mended: pieces of text that were not UTF-8, and numbers read as missing."""

    text: int = 0
    numbers: int = 0

    def add(self, other: Repairs) -> None:
        self.text += other.text
        self.numbers += other.numbers


def as_utf8(data: bytes) -> tuple[bytes, Repairs]:
    """The bytes with everything that is not UTF-8 replaced."""
    if data.isascii():
        return data, Repairs()
    text = data.decode("utf-8", "replace")
    replaced = text.count(_REPLACEMENT) - data.count(_REPLACEMENT.encode())
    return (text.encode(), Repairs(text=replaced)) if replaced else (data, Repairs())


def without_bare_numbers(data: bytes) -> tuple[bytes, Repairs]:
    """The JSON text with `inf` and `nan` as null where they certainly are values of a field.

    Fast, for text with many of them: profilers write bandwidths so. `mended` finds the others.
    """
    data, repairs = as_utf8(data)

    def missing(match: re.Match[bytes]) -> bytes:
        before = data[max(0, match.start() - 2) : match.start()]
        # A quote behind such a byte may open a string, or be part of one.
        if len(before) < 2 or before[1:] != b'"' or before[:1] in b"\\:,[{ \t\r\n":
            return match.group()
        repairs.numbers += 1
        return b":null" + match["end"]

    return _FIELD_NUMBER.sub(missing, data), repairs


def mended(data: bytes) -> tuple[bytes, Repairs]:
    """JSON text with all mendable faults mended; the text must begin outside a string."""
    data, repairs = as_utf8(data)

    def token(match: re.Match[bytes]) -> bytes:
        word = match.group()
        if not word.startswith(b'"'):
            repairs.numbers += 1
            return b"null"
        if not _SUSPICIOUS.search(word):
            return word
        try:
            value: str = json.loads(word, strict=False)
        except ValueError:
            return word
        whole = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        repairs.text += whole != value
        return msgspec.json.encode(whole)

    return _TOKEN.sub(token, data), repairs
