"""Level of detail: what is too short to be seen is shown together, and no nanosecond is lost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from bubblescope.analyzers.results import STATES
from bubblescope.report.html.pieces import COLUMNS
from bubblescope.trace.frames import UNKNOWN

Longs = npt.NDArray[np.int64]

#: The finest level of a page has at most so many pieces, for its size and the time to load it.
MOST = 150_000
#: A browser draws so many at once without making people wait; the coarsest level has no more.
MOST_DRAWN = 7_000
#: Cells of the coarsest level, unless that would be too many pieces: each about two pixels.
_COARSEST_CELLS = 512
#: A level is kept where it has fewer pieces than this share of the next finer one.
_WORTH_KEEPING = 0.7


@dataclass(frozen=True)
class Level:
    """Pieces of at least `cell_ns`, and what is shorter in groups of about that length; 0: every piece."""

    cell_ns: int
    table: pd.DataFrame


def levels(table: pd.DataFrame, window_ns: int, most: int = MOST) -> tuple[Level, ...]:
    """The finest first: the pieces themselves if they are not too many, then ever fewer."""
    found = [Level(0, table)] if len(table) <= most else []
    lanes = max(table["lane"].nunique(), 1)
    cells = 1 << max(most // lanes, _COARSEST_CELLS).bit_length()
    while cells >= _COARSEST_CELLS or len(table) > MOST_DRAWN:
        cell_ns = -(-window_ns // cells)
        table = merged(table, cell_ns)
        if len(table) <= most and (not found or len(table) < _WORTH_KEEPING * len(found[-1].table)):
            found.append(Level(cell_ns, table))
        cells //= 2
    return tuple(found)


def merged(table: pd.DataFrame, cell_ns: int) -> pd.DataFrame:
    """Neighbours shorter than a cell become one group per cell, with at most two pieces per state: what
    its main culprit is to blame for, and the rest.

    Pieces of a group share its begin and end; per lane and state `ns` adds up to what it was. Groups do
    not cross a microbatch that is itself longer than a cell, so that it keeps its edges.
    """
    if table.empty:
        return table
    group = _groups(table, cell_ns)
    first = np.flatnonzero(np.diff(group, prepend=-1))
    begins = table["begin_ns"].to_numpy()[first]
    ends = np.maximum.reduceat(table["end_ns"].to_numpy(), first)
    blame = _main_blame(group * len(STATES) + table["state"].to_numpy(), table)
    out = (
        table.assign(group=group, blame=blame)
        .groupby(["group", "state", "blame"], as_index=False)
        .agg(
            lane=("lane", "first"),
            ns=("ns", "sum"),
            microbatch=("microbatch", "min"),
            other=("microbatch", "max"),
            batch_ns=("batch_ns", "min"),
            count=("count", "sum"),
        )
    )
    number = out["group"].to_numpy()
    one_batch = out["microbatch"] == out["other"]
    out = out.assign(
        begin_ns=begins[number],
        end_ns=ends[number],
        microbatch=out["microbatch"].where(one_batch, UNKNOWN),
    )
    return out[list(COLUMNS)]


def _groups(table: pd.DataFrame, cell_ns: int) -> Longs:
    """The number of the group of each piece, from 0."""
    lane, begin = table["lane"].to_numpy(), table["begin_ns"].to_numpy()
    short = (table["end_ns"].to_numpy() - begin) < cell_ns
    batch = np.where(table["batch_ns"].to_numpy() >= cell_ns, table["microbatch"].to_numpy(), UNKNOWN)
    parts = ~short | ~np.append(False, short[:-1]) | _changes(begin // cell_ns) | _changes(batch)
    # Pieces that share their time already stay together.
    starts = _changes(lane) | (_changes(begin) & parts)
    return np.cumsum(starts) - 1


def _changes(values: Longs) -> npt.NDArray[np.bool_]:
    return np.append(True, values[1:] != values[:-1])


def _main_blame(alike: Longs, table: pd.DataFrame) -> Longs:
    """The culprit of each piece if it has the most time of those of pieces that are alike, else UNKNOWN."""
    blame = table["blame"].to_numpy()
    known = blame != UNKNOWN
    rows = pd.DataFrame({"alike": alike[known], "blame": blame[known], "ns": table["ns"].to_numpy()[known]})
    totals = rows.groupby(["alike", "blame"])["ns"].sum().reset_index()
    main = totals.sort_values("ns", kind="stable").drop_duplicates("alike", keep="last")
    mine = rows["alike"].map(main.set_index("alike")["blame"])
    kept = np.full(len(table), UNKNOWN)
    kept[known] = rows["blame"].where(rows["blame"] == mine, UNKNOWN)
    return kept
