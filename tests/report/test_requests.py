"""The table of requests, and of bursts where none is recorded."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bubblescope.analyzers.results import BURSTS, Analysis, RequestBreakdown
from bubblescope.report.requests import requests
from bubblescope.trace.frames import table
from tests.report.analyses import BEGIN_NS, MS, analysis, requested

PLAIN = analysis([[("compute", 2000)], [("compute", 2000)]])


def _served(*found: tuple[str, int, int | None, int, dict[str, int]]) -> Analysis:
    """name, arrival and TTFT in ms, prompt tokens, parts in ms; a warm-up came before all."""
    rows = [
        (name, at, None if ttft is None else at + ttft, prompt, False) for name, at, ttft, prompt, _ in found
    ]
    built = requested(PLAIN, [("warm-up", -500, -400, 1, True), *rows])
    return replace(
        built,
        requests=tuple(
            RequestBreakdown(
                name,
                BEGIN_NS + at * MS,
                None if ttft is None else ttft * MS,
                prompt,
                {part: ms * MS for part, ms in parts.items()},
            )
            for name, at, ttft, prompt, parts in found
        ),
    )


def _rows(analysis: Analysis) -> list[dict[str, str]]:
    section = requests(analysis, BEGIN_NS)
    assert section is not None and section.table is not None
    return [dict(zip(section.table.header, row, strict=True)) for row in section.table.rows]


def test_a_request_shows_where_its_ttft_went_largest_part_first() -> None:
    parts = {"queue": 0, "host": 20, "compute_stage_0": 700, "compute_stage_1": 180, "bubble": 100}
    (row,) = _rows(_served(("a", 10, 1000, 32_000, parts)))
    assert row == {
        "#": "1",
        "request": "a",
        "arrival ms": "10.0",
        "prompt": "32000",
        "TTFT ms": "1000.0",
        # 32,000 tokens in a second.
        "tokens/s": "32000",
        "where the TTFT went": "compute on stage 0 70 %, compute on stage 1 18 %, bubble 10 %, host 2.0 %",
    }


def test_saving_and_restoring_is_said_in_words() -> None:
    (row,) = _rows(_served(("a", 10, 100, 5, {"state": 70, "compute_stage_0": 30})))
    assert row["where the TTFT went"] == "saving or restoring KV cache 70 %, compute on stage 0 30 %"


def test_a_long_name_shows_its_end() -> None:
    (row,) = _rows(_served(("cmpl-0123456789abcdef-7", 10, 100, 5, {})))
    assert row["request"] == "…3456789abcdef-7"


def test_names_that_only_count_take_no_room() -> None:
    counted = _served(*((f"bubblescope-request-{n}", 10 * n, 5, 100, {}) for n in (1, 2)))
    assert ["request" in row for row in _rows(counted)] == [False, False]
    # Where one name says more, all are shown.
    named = _served(("bubblescope-request-1", 10, 5, 100, {}), ("other", 20, 5, 100, {}))
    assert [row["request"] for row in _rows(named)] == ["…scope-request-1", "other"]


def test_a_request_without_first_token_says_so() -> None:
    (row,) = _rows(_served(("a", 10, None, 100, {})))
    assert row["TTFT ms"] == "none"
    assert row["tokens/s"] == "?"
    assert row["where the TTFT went"] == "no first token in the recording"


def test_an_unknown_breakdown_and_prompt_are_not_invented() -> None:
    (row,) = _rows(_served(("a", 10, 100, -1, {})))
    assert (row["prompt"], row["tokens/s"], row["where the TTFT went"]) == ("?", "?", "cannot be told")


def test_a_ttft_of_nothing_breaks_nothing() -> None:
    (row,) = _rows(_served(("a", 10, 0, 5, {"queue": 0})))
    assert row["tokens/s"] == "?"


def test_of_many_the_slowest_are_shown_under_their_own_numbers() -> None:
    # The n-th request, from 1, takes n ms; twelve of them, so 1 and 2 are left out.
    many = _served(*((f"r{n}", 10 * n, n, 100, {}) for n in range(1, 13)))
    assert [row["#"] for row in _rows(many)] == [str(n) for n in range(3, 13)]
    section = requests(many, BEGIN_NS)
    assert section is not None
    assert section.lines[0].text == "The 10 slowest of 12 requests; median TTFT 7.00 ms"


def test_bursts_stand_in_for_requests_with_times_to_be_typed() -> None:
    two = table(
        BURSTS,
        {
            "begin_ns": [BEGIN_NS, BEGIN_NS + 1125 * MS],
            "end_ns": [BEGIN_NS + 1000 * MS, BEGIN_NS + 2000 * MS],
            "inferred": [True, True],
        },
    )
    rows = _rows(replace(PLAIN, bursts=two))
    assert rows == [
        {"#": "1", "begin ms": "0", "end ms": "1000.0", "lasts ms": "1000.0"},
        {"#": "2", "begin ms": "1125.0", "end ms": "2000.0", "lasts ms": "875.0"},
    ]


@pytest.mark.parametrize("count", [0, 1])
def test_one_burst_or_none_says_nothing_that_the_window_does_not(count: int) -> None:
    assert requests(replace(PLAIN, bursts=PLAIN.bursts.iloc[:count]), BEGIN_NS) is None
