"""An SQLite file as columns of numbers and texts, whoever made it.

It is opened read-only and immutable, so nothing is written beside it. Only ordinary tables and columns are
read: no view, no trigger, no generated column and no function of the file is ever run. What is read
is bounded by the size of the file.
"""

from __future__ import annotations

import sqlite3
import sys
from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bubblescope.errors import NotATraceError
from bubblescope.trace.frames import TIME_LIMIT
from bubblescope.trace.source import shown

Longs = npt.NDArray[np.int64]

#: How an SQLite file begins.
MAGIC = b"SQLite format 3\0"
#: Stands for None.
MISSING = -(1 << 63)
#: A text longer than this is cut: it is a name, to be shown to people.
LONGEST_TEXT = 4096

_BLOCK = 8192
#: A row takes at least so many bytes of the file; a file that says that it has more rows is made so.
_SMALLEST_ROW = 4
#: A row, and a text before it is cut, may be so long.
_LONGEST_VALUE = 64 << 20
_MOST_TABLES = 4096
_FUNCTIONS = ("typeof", "substr")


class Database:
    """One file.

    tables: the columns of its ordinary tables. broken: why a table ends before it should, by its name.
    cut: the file is shorter than it says.
    """

    def __init__(self, path: Path) -> None:
        self.broken: dict[str, str] = {}
        self.cut = False
        self._most_rows = path.stat().st_size // _SMALLEST_ROW
        self._file = _opened(path)
        try:
            self.tables = self._tables()
        except sqlite3.DatabaseError as error:
            if not _shorter_than_it_says(path):
                self._file.close()
                raise NotATraceError(f"damaged: {shown(path)} cannot be read as SQLite: {error}") from None
            self.cut = True
            self.tables = self._tables_of_what_is_there(path)
        self._file.set_authorizer(_reading_only)

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def rows(
        self, table: str, numbers: Sequence[str], texts: Sequence[str] = ()
    ) -> Iterator[tuple[tuple[Any, ...], ...]]:
        """The columns of a table, first the numbers, then the texts, block by block.

        None stands for a value of another type, and for a column that the table does not have. A text is
        cut at LONGEST_TEXT.
        """
        there = self.tables.get(table, frozenset())
        # Told by SQLite, so that a value of another type, however long, is not even loaded.
        forms = [(name, "integer", f'"{name}"') for name in numbers]
        forms += [(name, "text", f'substr("{name}", 1, {LONGEST_TEXT})') for name in texts]
        named = ", ".join(
            f"CASE typeof(\"{name}\") WHEN '{kind}' THEN {form} END" if name in there else "NULL"
            for name, kind, form in forms
        )
        left = self._most_rows
        try:
            cursor = self._file.execute(f'SELECT {named} FROM "{table}"') if there else None
            while cursor is not None and (block := cursor.fetchmany(_BLOCK)):
                left -= len(block)
                if left < 0:
                    raise sqlite3.DatabaseError("it has more rows than the file has room for")
                yield tuple(zip(*block, strict=True))
        except (sqlite3.Error, OverflowError) as error:
            self.broken[table] = str(error)

    def _tables(self) -> Mapping[str, frozenset[str]]:
        names = "SELECT name, sql FROM sqlite_master WHERE type = 'table'"
        found = self._file.execute(names).fetchmany(_MOST_TABLES)
        return {
            name: columns
            for name, sql in found
            if isinstance(name, str) and '"' not in name and not str(sql).upper().startswith("CREATE VIRTUAL")
            if (columns := self._columns(name))
        }

    def _columns(self, table: str) -> frozenset[str]:
        """Those that hold what they show: a generated one would have to be computed."""
        described = self._file.execute(f'PRAGMA table_xinfo("{table}")').fetchall()
        return frozenset(name for _, name, _, _, _, _, hidden in described if not hidden)

    def _tables_of_what_is_there(self, path: Path) -> Mapping[str, frozenset[str]]:
        try:
            # With this SQLite takes the size that the file has for the one that it says it has.
            self._file.execute("PRAGMA writable_schema = ON")
            return self._tables()
        except sqlite3.DatabaseError as error:
            self._file.close()
            raise NotATraceError(
                f"damaged: {shown(path)} is cut off after {path.stat().st_size} bytes, and no table of it "
                f"can be read: {error}"
            ) from None


def whole(values: Sequence[int | None]) -> Longs:
    """A column of numbers as int64, MISSING for None."""
    try:
        return np.frombuffer(array("q", values), np.int64)  # type: ignore[type-var]
    except TypeError:
        return np.array([MISSING if value is None else value for value in values], dtype=np.int64)


def is_time(values: Longs) -> npt.NDArray[np.bool_]:
    """Which of the numbers can be times."""
    return (values > -TIME_LIMIT) & (values < TIME_LIMIT)


def _opened(path: Path) -> sqlite3.Connection:
    file = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True, isolation_level=None)
    file.text_factory = _decoded
    if sys.version_info >= (3, 11):
        file.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
    for setting in ("trusted_schema = OFF", "query_only = ON", "mmap_size = 0"):
        file.execute(f"PRAGMA {setting}")
    return file


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "replace")


def _reading_only(action: int, _: str | None, name: str | None, *__: object) -> int:
    reads = action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ)
    calls = action == sqlite3.SQLITE_FUNCTION and name in _FUNCTIONS
    return sqlite3.SQLITE_OK if reads or calls else sqlite3.SQLITE_DENY


def _shorter_than_it_says(path: Path) -> bool:
    """By the page size and the number of pages in its header."""
    with path.open("rb") as file:
        header = file.read(100)
    page = int.from_bytes(header[16:18], "big")
    pages = int.from_bytes(header[28:32], "big")
    return (65536 if page == 1 else page) * pages > path.stat().st_size
