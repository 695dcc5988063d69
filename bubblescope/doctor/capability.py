"""CUDA compute capabilities as pairs that compare: "8.9" is older than "12.0"."""

from __future__ import annotations

Capability = tuple[int, int]


def parse_capability(text: str) -> Capability:
    """(8, 9) for "8.9"; ValueError for anything else."""
    major, minor = text.split(".")
    return int(major), int(minor)


def shown(capability: Capability) -> str:
    """The way it is written: "8.9"."""
    return f"{capability[0]}.{capability[1]}"
