"""How many stages compute at once, and the bubble that a balanced pipeline would still have."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from bubblescope.analyzers import intervals as iv
from bubblescope.analyzers.concurrency import concurrency, ideal_bubble_ratio


def test_concurrency_counts_stages_and_sums_to_the_window() -> None:
    # GIVEN stage 0 at 0-10 and 20-30, stage 1 at 5-25, seen from 2 to 40
    stages = [iv.union([0, 20], [10, 30]), iv.union([5], [25])]
    table = concurrency(stages, (2, 40))
    assert dict(zip(table["stages"], table["ns"], strict=True)) == {0: 10, 1: 3 + 10 + 5, 2: 5 + 5}


def forwards(rows: list[tuple[int, int, str]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["microbatch", "begin_ns", "phase"]).assign(
        kind="forward", end_ns=np.nan
    )


def test_the_ideal_is_weighted_by_burst_length_over_prefills_only() -> None:
    # GIVEN a burst of 300 ns with 7 prefill chunks on 4 stages (3/10), one of 100 ns with 1 (3/4)
    rows = [(number, number, "prefill") for number in range(7)] + [(7, 50, "decode"), (8, 1000, "prefill")]
    bursts = pd.DataFrame({"begin_ns": [0, 1000], "end_ns": [300, 1100]})
    assert ideal_bubble_ratio(4, forwards(rows), bursts) == pytest.approx((300 * 0.3 + 100 * 0.75) / 400)


def test_there_is_no_ideal_for_decode_alone() -> None:
    bursts = pd.DataFrame({"begin_ns": [0], "end_ns": [300]})
    assert ideal_bubble_ratio(4, forwards([(0, 10, "decode")]), bursts) is None
