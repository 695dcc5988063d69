"""Level of detail: fewer pieces, the same nanoseconds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblescope.analyzers.results import STATES
from bubblescope.report.html.detail import MOST, MOST_DRAWN, levels, merged
from bubblescope.report.html.pieces import COLUMNS
from bubblescope.trace.frames import UNKNOWN

COMPUTE, STARVED, HOST = (STATES.index(state) for state in ("compute", "starved", "host"))


def lane(rows: Sequence[tuple[int, int, int, int]], number: int = 0) -> pd.DataFrame:
    """rows: state, length in ns, microbatch, culprit; a microbatch's work is as long as its rows."""
    states, lengths, batches, blames = (
        np.array(column, dtype=np.int64) for column in zip(*rows, strict=True)
    )
    ends = np.cumsum(lengths)
    work = {batch: int(lengths[batches == batch].sum()) for batch in batches.tolist() if batch != UNKNOWN}
    columns = {
        "lane": number,
        "state": states,
        "begin_ns": ends - lengths,
        "end_ns": ends,
        "ns": lengths,
        "microbatch": batches,
        "batch_ns": [work.get(batch, 0) for batch in batches.tolist()],
        "blame": blames,
        "count": 1,
    }
    return pd.DataFrame(columns)[list(COLUMNS)]


def told(table: pd.DataFrame) -> list[tuple[int, int, int, int]]:
    """State, begin, end and ns."""
    return [(row.state, row.begin_ns, row.end_ns, row.ns) for row in table.itertuples(index=False)]


def test_what_is_shorter_than_a_cell_shares_it_by_state() -> None:
    # GIVEN kernels of 3 ns with gaps of 1 ns
    table = lane([(COMPUTE, 3, -1, -1), (HOST, 1, -1, -1)] * 4)
    # WHEN a cell is 8 ns
    # THEN two cells of two kernels and two gaps each
    assert told(merged(table, 8)) == [
        (COMPUTE, 0, 8, 6),
        (HOST, 0, 8, 2),
        (COMPUTE, 8, 16, 6),
        (HOST, 8, 16, 2),
    ]


def test_what_is_as_long_as_a_cell_stays_as_it_is() -> None:
    table = lane([(COMPUTE, 3, -1, -1), (STARVED, 8, -1, -1), (COMPUTE, 2, -1, -1), (HOST, 2, -1, -1)])
    assert told(merged(table, 8)) == [
        (COMPUTE, 0, 3, 3),
        (STARVED, 3, 11, 8),
        (COMPUTE, 11, 15, 2),
        (HOST, 11, 15, 2),
    ]


def test_a_microbatch_longer_than_a_cell_keeps_its_edges() -> None:
    # GIVEN microbatch 0 ends at 20 and 1 begins there, in the middle of a cell
    table = lane([(COMPUTE, 5, 0, -1)] * 4 + [(COMPUTE, 5, 1, -1)] * 4)
    coarse = merged(table, 8)
    # THEN a group ends there although 15 to 25 lie in cells 1 to 3 without a gap
    assert [(row.microbatch, row.begin_ns, row.end_ns) for row in coarse.itertuples(index=False)] == [
        (0, 0, 10),
        (0, 10, 20),
        (1, 20, 25),
        (1, 25, 35),
        (1, 35, 40),
    ]


def test_shorter_microbatches_lose_their_number_where_they_share_a_cell() -> None:
    coarse = merged(lane([(COMPUTE, 2, 0, -1), (COMPUTE, 2, 1, -1)]), 8)
    assert coarse["microbatch"].tolist() == [UNKNOWN]
    assert coarse["count"].tolist() == [2]


def test_the_main_culprit_keeps_its_name_and_the_others_share_one_piece() -> None:
    # GIVEN 5 ns of waiting for culprit 0, 2 for culprit 1 and 1 for culprit 2
    rows = [(STARVED, 3, -1, 0), (STARVED, 2, -1, 1), (STARVED, 2, -1, 0), (STARVED, 1, -1, 2)]
    coarse = merged(lane(rows), 100)
    assert dict(zip(coarse["blame"], coarse["ns"], strict=True)) == {0: 5, UNKNOWN: 3}


Rows = list[tuple[int, int, int, int]]
PIECES = st.lists(
    st.tuples(
        st.integers(0, len(STATES) - 1), st.integers(1, 10_000), st.integers(-1, 5), st.integers(-1, 3)
    ),
    min_size=1,
    max_size=80,
)


def totals(table: pd.DataFrame) -> dict[tuple[int, int], int]:
    sums = table.groupby(["lane", "state"])["ns"].sum()
    return dict(zip(sums.index.tolist(), sums.tolist(), strict=True))


@given(PIECES, PIECES, st.lists(st.integers(1, 50_000), min_size=1, max_size=4))
def test_no_nanosecond_of_any_state_is_lost(one: Rows, two: Rows, cells: list[int]) -> None:
    table = pd.concat([lane(one), lane(two, 1)], ignore_index=True)
    coarse = table
    for cell in sorted(cells):
        coarse = merged(coarse, cell)
        assert totals(coarse) == totals(table)
        assert int(coarse["count"].sum()) == len(table)
        # Groups follow each other without a hole, and are full.
        groups = coarse.groupby(["lane", "begin_ns"], as_index=False).agg(
            end=("end_ns", "max"), ns=("ns", "sum")
        )
        assert (groups["end"] - groups["begin_ns"] == groups["ns"]).all()
        same = groups["lane"].to_numpy()[1:] == groups["lane"].to_numpy()[:-1]
        assert (groups["begin_ns"].to_numpy()[1:] == groups["end"].to_numpy()[:-1])[same].all()


def test_a_recording_that_fits_is_there_in_full() -> None:
    table = lane([(COMPUTE, 10, -1, -1), (HOST, 10, -1, -1)] * 10)
    (finest, *_) = levels(table, 200)
    assert finest.cell_ns == 0
    assert told(finest.table) == told(table)


@pytest.mark.parametrize("lanes", [1, 16, 64])
def test_however_long_the_recording_each_level_is_bounded(lanes: int) -> None:
    # GIVEN far more pieces than a page can hold, of all states and of very different lengths
    random = np.random.default_rng(lanes)
    count = 400_000 // lanes
    rows = np.column_stack(
        (
            random.integers(0, len(STATES), count),
            random.lognormal(8, 3, count).astype(np.int64) + 1,
            np.full(count, UNKNOWN),
            random.integers(-1, 40, count),
        )
    )
    table = pd.concat([lane(list(map(tuple, rows)), number) for number in range(lanes)], ignore_index=True)
    window_ns = int(table["end_ns"].max())
    found = levels(table, window_ns)
    assert len(found[0].table) <= MOST
    assert len(found[-1].table) <= MOST_DRAWN
    assert [level.cell_ns for level in found] == sorted({level.cell_ns for level in found})
    assert all(totals(level.table) == totals(table) for level in found)
