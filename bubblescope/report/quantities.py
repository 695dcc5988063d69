"""Durations and shares as people read them, and durations as people type them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from bubblescope.errors import UsageError

_UNITS_NS = {"ns": 1, "µs": 10**3, "ms": 10**6, "s": 10**9}
_DURATION = re.compile(r"([0-9]{1,30}(?:\.[0-9]{1,30})?)(ns|us|ms|s)", re.ASCII)
_LONGEST_NS = 2**62


@dataclass(frozen=True)
class Unit:
    """A unit of time for a whole table, so that its columns compare at a glance."""

    name: str

    @staticmethod
    def fitting(longest_ns: int) -> Unit:
        """Milliseconds wherever they read well, for a table whose largest number is near `longest_ns`."""
        if longest_ns >= 1000 * _UNITS_NS["s"]:
            return Unit("s")
        return Unit("µs" if longest_ns < _UNITS_NS["ms"] else "ms")

    def number(self, ns: int) -> str:
        """Without the unit's name: one decimal, "0" only for nothing at all."""
        if ns == 0:
            return "0"
        value = ns / _UNITS_NS[self.name]
        return f"{value:.1f}" if abs(value) >= 0.05 else "<0.1"


def duration(ns: int) -> str:
    """Three figures and the unit that suits them: "971 ms", "4.25 ms", "62.5 µs"."""
    if ns == 0:
        return "0 s"
    for name in ("s", "ms", "µs"):
        value = ns / _UNITS_NS[name]
        # What rounds to 1000 of a unit is 1 of the next.
        if abs(value) >= 0.9995:
            decimals = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
            return f"{value:.{decimals}f} {name}"
    return f"{ns} ns"


def percent(part: float, whole: float) -> str:
    """The share in percent; "-" where there is no whole."""
    return share(part / whole) if whole > 0 else "-"


def share(ratio: float | None) -> str:
    """A ratio in percent; "unknown" for None."""
    if ratio is None:
        return "unknown"
    value = 100 * ratio
    if 99.5 <= value < 100:
        # Not 100 %, which would say that nothing is missing.
        return f"{min(value, 99.9):.1f} %"
    if value == 0 or value >= 9.95:
        return f"{value:.0f} %"
    return f"{value:.1f} %" if value >= 0.05 else "<0.1 %"


def parse_duration(text: str, option: str) -> int:
    """Nanoseconds of a duration such as "10ms" or "1.25s"; UsageError names the option."""
    match = _DURATION.fullmatch(text.strip().replace("\u00b5", "u"))
    if match is None:
        raise UsageError(f"{option}: {text!r} is not a time; write a number with ns, us, ms or s, like 10ms")
    ns = int((Decimal(match[1]) * _UNITS_NS[match[2].replace("u", "µ")]).to_integral_value())
    if ns > _LONGEST_NS:
        raise UsageError(f"{option}: {text!r} is longer than any recording")
    return ns
