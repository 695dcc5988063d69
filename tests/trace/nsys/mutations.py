"""Statements that make an export into one that makes no sense; each leaves a file that SQLite can open."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from random import Random

_VALUES = (
    "NULL", "0", "-1", "1", "7", "9223372036854775807", "-9223372036854775808", "2305843009213693952",
    "4294967296", "1.5", "1e300", "-1e300", "9e999", "''", "'text'", "'12'", "x'ff00'", "zeroblob(100000)",
    "'\x1b[31m<script>'", "CAST(x'ff80' AS TEXT)", "hex(zeroblob(20000))", "'a' || char(0) || 'b'",
    "'forward stage=0 step=1 microbatch=1 tokens=5 layers=0-9'", "'send stage=999999999 rank=3 peer=0'",
    "'ncclGroupEnd'", "'nccl:send 0->1'", "rowid", "-rowid", "rowid * 1000000007", "abs(random())",
    "random()",
)  # fmt: skip


def mutate(path: Path, random: Random) -> None:
    """Do a few things to an export."""
    with sqlite3.connect(path) as file:
        for _ in range(random.choice((1, 1, 2, 3, 6))):
            tables = [name for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            table = random.choice(tables)
            columns = [name for _, name, *_ in file.execute(f'PRAGMA table_info("{table}")')]
            if not columns:
                continue
            for statement in _statements(table, columns, tables, random):
                file.execute(statement)
    file.close()


def _statements(table: str, columns: Sequence[str], tables: Sequence[str], random: Random) -> list[str]:
    column, other = random.choice(columns), random.choice(columns)
    some = random.choice(("1", "rowid % 7 = 0", "rowid = 1", "random() % 3 = 0"))
    value = random.choice((*_VALUES, f'"{other}"'))
    named = ", ".join(f'"{each}"' for each in columns)
    shift = random.choice(("1", "-1000000", "(1 << 61)"))
    default = random.choice(("NULL", "7", "x'00'"))
    again = random.choice((table, table.lower(), f"{random.choice(tables)}_more"))
    more = f"more{random.randrange(10**9)}"
    choices = (
        [f'UPDATE "{table}" SET "{column}" = {value} WHERE {some}'],
        [f'UPDATE "{table}" SET "{column}" = "{column}" + {shift} WHERE {some}'],
        [f'DELETE FROM "{table}" WHERE {some}'],
        [f'INSERT INTO "{table}" SELECT * FROM "{table}" LIMIT 300'],
        [f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "{more}"'],
        [f'ALTER TABLE "{table}" RENAME TO "{more}"', f'CREATE VIEW "{table}" AS SELECT * FROM "{more}"'],
        [f'DROP TABLE "{table}"'],
        [f'CREATE TRIGGER {more} AFTER INSERT ON "{table}" BEGIN DELETE FROM "{table}"; END'],
        [f'CREATE INDEX {more} ON "{table}"("{column}")'],
        [f'ALTER TABLE "{table}" ADD COLUMN {more} DEFAULT {default}'],
        [
            f'CREATE TABLE {more} AS SELECT {named} FROM "{table}"', f'DROP TABLE "{table}"',
            f'ALTER TABLE {more} RENAME TO "{again}"',
        ],
    )  # fmt: skip
    return random.choice((choices[0], choices[0], choices[0], *choices))
