"""Versions of engines, compared by their numbers alone."""

from __future__ import annotations

import re

Version = tuple[int, ...]

_NUMBERS = re.compile(r"[vb]?([0-9]{1,9}(?:\.[0-9]{1,9}){0,5})", re.ASCII)


def parse_version(text: str) -> Version | None:
    """(0, 5, 12) for "0.5.12.post1", (11434,) for "b11434"; None where it begins with no number.

    A post-release, a release candidate and a local build count as their release.
    """
    found = _NUMBERS.match(text.strip())
    return tuple(map(int, found[1].split("."))) if found else None
