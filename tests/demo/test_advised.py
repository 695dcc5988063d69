"""The demonstration: recorded, advised, recorded again."""

from __future__ import annotations

from bubblescope.analyzers.advice.recommend import Prediction
from bubblescope.analyzers.results import Recommendation
from bubblescope.demo.advised import comparison


def test_predicted_stands_beside_measured() -> None:
    before = Recommendation(None, "", makespan_ns=2_000_000_000, ttft_ns=2_100_000_000)
    after = Recommendation(None, "", makespan_ns=1_680_000_000, ttft_ns=1_700_000_000)
    table = comparison(before, Prediction(1_600_000_000, None), after)
    rows = [line.split() for line in table.splitlines()]
    assert rows[1][-6:] == ["2000", "ms", "1600", "ms", "1680", "ms"]
    assert rows[2][-5:] == ["2100", "ms", "-", "1700", "ms"]
    assert table.endswith("The prediction is off by 5.0%.")
