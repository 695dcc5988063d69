"""Walk a frame group by group, with keys as plain integers."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd


def grouped(frame: pd.DataFrame, *columns: str) -> Iterator[tuple[tuple[int, ...], pd.DataFrame]]:
    """The integer columns' values and the rows that share them, in ascending order of the values."""
    for key, part in frame.groupby(list(columns), sort=True):
        values = key if isinstance(key, tuple) else (key,)
        yield tuple(int(str(value)) for value in values), part
