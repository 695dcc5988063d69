"""The demonstration: recorded, advised, recorded again."""

from __future__ import annotations

import pytest

from bubblescope.analyzers.advice.recommend import Prediction
from bubblescope.analyzers.results import Recommendation
from bubblescope.demo.advised import chance, comparison


def test_predicted_stands_beside_measured() -> None:
    before = Recommendation(None, "", makespan_ns=2_000_000_000, ttft_ns=2_100_000_000)
    after = Recommendation(None, "", makespan_ns=1_680_000_000, ttft_ns=1_700_000_000)
    table = comparison(before, Prediction(1_600_000_000, None), after)
    rows = [line.split() for line in table.splitlines()]
    assert rows[1][-6:] == ["2000", "ms", "1600", "ms", "1680", "ms"]
    assert rows[2][-5:] == ["2100", "ms", "-", "1700", "ms"]
    assert table.endswith("The prediction is off by 5.0 %.")


def test_what_may_be_chance() -> None:
    first, second = [70, 100, 130] * 3, [120, 200, 280] * 3
    # Of the first the sum of squares is 6 x 30² = 5400, over 8: a deviation of 26.0; so 69.3 of the second.
    deviations = (26.0 / 100 / 3, 69.3 / 200 / 3)
    expected = 2 * (deviations[0] ** 2 + deviations[1] ** 2) ** 0.5
    assert chance(first, second) == pytest.approx(expected, rel=0.01)
