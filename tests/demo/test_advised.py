"""The demonstration: recorded, advised, recorded again."""

from __future__ import annotations

import pytest

from bubblescope.analyzers.results import RequestBreakdown
from bubblescope.demo.advised import affordable_turns, comparison

MS = 1_000_000


def test_predicted_stands_beside_measured() -> None:
    # GIVEN prompts of 200 ms, of which 0.8 are to be left, and one beside each kind that was disturbed
    before = [200 * MS] * 8 + [900 * MS]
    after = [168 * MS] * 8 + [700 * MS]
    rows = [line.split() for line in comparison(before, 0.8, after).splitlines()]
    assert rows[1][-6:] == ["200", "ms", "160", "ms", "168", "ms"]
    assert " ".join(rows[2]).startswith("The prediction is off by 5.0%; up to 0.0% may be chance")


def test_what_may_be_chance_grows_with_what_like_prompts_differ_by() -> None:
    # The quartiles of 1, 2, ..., 7 are 2, 4 and 6. So of these they are 8 % of the median apart, of seven
    # values: 2 x 0.93 x 0.08 / sqrt(7) = 5.6 %, and sqrt(2) times as much of two such.
    times = [(100 + 2 * n) * MS for n in range(-3, 4)]
    assert "up to 8.0% may be chance" in comparison(times, 1.0, times)


@pytest.mark.parametrize(
    ("of_2048_tokens_ms", "turns"),
    [(500, 30), (2000, 10), (60_000, 6)],  # 40 s hold so many pairs of them: 40, 10 and 0
)
def test_a_slower_machine_takes_fewer_turns(of_2048_tokens_ms: int, turns: int) -> None:
    request = RequestBreakdown("a", 0, of_2048_tokens_ms * MS, 2048, {})
    unanswered = RequestBreakdown("b", 0, None, 2048, {})
    assert affordable_turns([request, request, unanswered]) == turns
