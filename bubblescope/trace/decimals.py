"""Exact numbers out of a recording: decimal text to integers, never through a float."""

from __future__ import annotations

import re
from typing import Any

from bubblescope.trace.frames import TIME_LIMIT

#: Times and durations stay below this, so that a begin plus a duration plus a base fits in int64.
LIMIT = TIME_LIMIT

_DECIMAL = re.compile(rb"\s*(-?)(\d{1,40})(?:\.(\d{1,40}))?(?:[eE]([+-]?\d{1,2}))?\s*\Z")
#: So many digits of microseconds cannot reach LIMIT; factors by the number of decimals.
_SHORT = 15
_SCALE = (1000, 100, 10, 1)
_INTEGER = re.compile(r"\s*-?\d{1,19}\s*", re.ASCII)


def nanoseconds(text: bytes) -> int | None:
    """Nanoseconds of a JSON number, or of a JSON string holding one, that counts microseconds.

    More than three decimals are rounded, halves away from zero. None where it is no number or
    lies outside what int64 nanoseconds can hold.
    """
    whole, _, fraction = text.partition(b".")
    digits = whole + fraction
    if 0 < len(whole) <= _SHORT and len(fraction) <= 3 and digits.isdigit():
        return int(digits) * _SCALE[len(fraction)]
    value = _rounded(text.strip(b'"'), 3)
    return value if value is not None and -LIMIT < value < LIMIT else None


def _rounded(text: bytes, places: int) -> int | None:
    match = _DECIMAL.match(text)
    if match is None:
        return None
    sign, whole, fraction, exponent = match.groups()
    digits = int(whole + (fraction or b""))
    shift = int(exponent or b"0") + places - len(fraction or b"")
    value: int = digits * 10**shift if shift >= 0 else (digits + 10**-shift // 2) // 10**-shift
    return -value if sign else value


def whole_number(value: Any) -> int | None:
    """The integer that a decoded JSON value holds, also as text; None where it holds none."""
    is_text = isinstance(value, str) and _INTEGER.fullmatch(value)
    if not is_text and type(value) is not int and not (isinstance(value, float) and value.is_integer()):
        return None
    number = int(value)
    return number if -LIMIT < number < LIMIT else None
