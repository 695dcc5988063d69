"""The parts of a page: a title with lines under it, or a table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """One thing said. `code` is to be typed exactly as it stands: a flag, say."""

    text: str
    code: str | None = None


@dataclass(frozen=True)
class Table:
    """Cells as text. `numbers` are the columns that are aligned to the right."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[str]


@dataclass(frozen=True)
class Section:
    """A title and what stands under it: the table first, then the lines."""

    title: str
    lines: tuple[Line, ...] = ()
    table: Table | None = None
