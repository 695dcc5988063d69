"""A burst that takes far longer than others of like compute is named, with the option that avoids it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bubblescope.analyzers.results import BURSTS, Analysis
from bubblescope.report.unlike import unlike
from bubblescope.report.verdict import verdict
from bubblescope.trace.frames import table
from tests.report.analyses import BEGIN_NS, MS, analysis, requested


def _bursts(*bursts: tuple[int, int], inferred: bool = True) -> Analysis:
    """Bursts of so many ms of compute and of host after it, which the second stage waits for."""
    first = [each for compute, rest in bursts for each in (("compute", compute), ("host", rest))]
    second = [each for compute, rest in bursts for each in (("compute", compute), ("starved", rest))]
    built = analysis([first, second], blame=[(1, 0, "host", sum(rest for _, rest in bursts))])
    ends = [BEGIN_NS + sum(sum(each) for each in bursts[: n + 1]) * MS for n in range(len(bursts))]
    columns: dict[str, list[Any]] = {
        "begin_ns": [BEGIN_NS, *ends[:-1]],
        "end_ns": ends,
        "inferred": [inferred] * len(ends),
    }
    return replace(built, bursts=table(BURSTS, columns))


def test_a_burst_that_lasts_longer_than_twice_as_long_for_as_much_compute_is_named() -> None:
    # GIVEN 500 ms against 100 ms, both of 90 ms compute
    assert unlike(_bursts((90, 410), (90, 10))) == (
        "Burst 1 lasts 5.0 times as long as burst 2 for about as much compute: "
        "look at burst 2 alone with --window request:2."
    )


def test_the_verdict_ends_with_it() -> None:
    assert verdict(_bursts((90, 410), (90, 10))).text.endswith(
        "look at burst 2 alone with --window request:2."
    )


def test_of_several_the_usual_one_is_to_be_looked_at() -> None:
    # GIVEN lengths 100, 500, 110 and 120 ms: of the like ones 110 is in the middle
    said = unlike(_bursts((90, 10), (90, 410), (90, 20), (90, 30)))
    assert said is not None
    assert "Burst 2 lasts 4.5 times as long as burst 3" in said and said.endswith("--window request:3.")


@pytest.mark.parametrize("bursts", [[(90, 10)], [(90, 100), (90, 10)], [(450, 50), (90, 10)]])
def test_one_alone_or_less_than_twice_as_long_or_more_work_is_not(bursts: list[tuple[int, int]]) -> None:
    assert unlike(_bursts(*bursts)) is None


def test_with_requests_recorded_their_numbers_count() -> None:
    # GIVEN a warm-up, then one request in each burst
    rows = [("w", -50, -10, 9, True), ("a", 0, 400, 9, False), ("b", 500, 590, 9, False)]
    said = unlike(requested(_bursts((90, 410), (90, 10), inferred=False), rows))
    assert said is not None and said.startswith("Request 1 lasts 5.0 times as long as request 2")


def test_a_burst_of_several_requests_has_no_request_to_look_at() -> None:
    rows = [("a", 0, 400, 9, False), ("b", 100, 480, 9, False), ("c", 500, 590, 9, False)]
    assert unlike(requested(_bursts((90, 410), (90, 10), inferred=False), rows)) is None


def test_a_window_that_was_asked_for_is_the_askers_choice() -> None:
    assert unlike(replace(_bursts((90, 410), (90, 10)), window_source="flag")) is None
