"""States over time as a row of marks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from bubblescope.analyzers.results import STATES

#: One mark per state, told apart without colour; the second set is for terminals without Unicode.
MARKS = dict(zip(STATES, ("█", "▓", "·", "›", "‹", "░", "▒", "h"), strict=True))
ASCII_MARKS = dict(zip(STATES, ("#", "=", "_", ">", "<", ".", "x", "h"), strict=True))


def strip(lane: pd.DataFrame, window_ns: tuple[int, int], cells: int) -> list[str | None]:
    """A state for each of `cells` equal parts of the window; None where the lane shows none.

    lane: the rows of one device in the timeline table. A part with several states shows one of
    them, and what it leaves out counts in the next parts, so that each state gets as many marks
    as its share of the time.
    """
    shown: list[str | None] = []
    owed = np.zeros(len(STATES), dtype=np.int64)
    for filled in _filled(lane, window_ns, cells):
        owed += filled
        if not filled.any():
            shown.append(None)
            continue
        most = int(np.where(filled > 0, owed, np.iinfo(np.int64).min).argmax())
        owed[most] -= filled.sum()
        shown.append(STATES[most])
    return shown


def _filled(lane: pd.DataFrame, window_ns: tuple[int, int], cells: int) -> npt.NDArray[np.int64]:
    """Nanoseconds of each state (columns, as in STATES) in each part of the window (rows)."""
    begin_ns, end_ns = window_ns
    # Python's integers: the window times the cells may not fit into 64 bits.
    edges = np.array([begin_ns + (end_ns - begin_ns) * each // cells for each in range(cells + 1)])
    return np.stack([_between(lane[lane["state"] == state], edges) for state in STATES], axis=1)


def _between(rows: pd.DataFrame, edges: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """How many ns of the disjoint, ordered rows lie between each two edges."""
    if rows.empty:
        return np.zeros(len(edges) - 1, dtype=np.int64)
    begins, ends = rows["begin_ns"].to_numpy(), rows["end_ns"].to_numpy()
    before = np.concatenate([[0], np.cumsum(ends - begins)])
    row = np.searchsorted(begins, edges, side="right") - 1
    inside = np.clip(np.minimum(edges, ends[row]) - begins[row], 0, None)
    return np.diff(np.where(row < 0, 0, before[row] + inside))
