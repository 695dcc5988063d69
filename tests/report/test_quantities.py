"""Durations and shares, as read and as typed."""

from __future__ import annotations

import pytest

from bubblescope.errors import UsageError
from bubblescope.report.quantities import Unit, duration, parse_duration, percent, share


@pytest.mark.parametrize(
    ("ns", "said"),
    [
        (0, "0 s"),
        (7, "7 ns"),
        (62_500, "62.5 µs"),
        (4_250_000, "4.25 ms"),
        (971_400_000, "971 ms"),
        (999_400_000, "999 ms"),
        (999_600_000, "1.00 s"),
        (10_200_000_000, "10.2 s"),
        (3_600_000_000_000, "3600 s"),
        (-4_250_000, "-4.25 ms"),
    ],
)
def test_a_duration_has_three_figures_and_its_own_unit(ns: int, said: str) -> None:
    assert duration(ns) == said


@pytest.mark.parametrize(
    ("part", "whole", "said"),
    [
        (58, 100, "58 %"),
        (0, 100, "0 %"),
        (52, 1000, "5.2 %"),
        (1, 10**6, "<0.1 %"),
        (3, 0, "-"),
        (9996, 10_000, "99.9 %"),
    ],
)
def test_a_small_share_is_not_nothing(part: int, whole: int, said: str) -> None:
    assert percent(part, whole) == said


def test_an_unknown_ratio_is_said_to_be_unknown() -> None:
    assert share(None) == "unknown"


@pytest.mark.parametrize(
    ("longest_ns", "unit"),
    [(500, "µs"), (999_999, "µs"), (10**6, "ms"), (999 * 10**9, "ms"), (3600 * 10**9, "s")],
)
def test_a_table_has_one_unit_for_all_its_numbers(longest_ns: int, unit: str) -> None:
    assert Unit.fitting(longest_ns) == Unit(unit)


def test_a_number_in_a_table_is_zero_only_for_nothing() -> None:
    assert [Unit("ms").number(ns) for ns in (0, 1, 1_300_000_000, -20_000_000)] == [
        "0",
        "<0.1",
        "1300.0",
        "-20.0",
    ]


@pytest.mark.parametrize(
    ("text", "ns"),
    [("10ms", 10**7), ("1.2s", 1_200_000_000), ("3us", 3000), ("3µs", 3000), (" 7ns ", 7), ("0s", 0)],
)
def test_reads_what_a_person_types(text: str, ns: int) -> None:
    assert parse_duration(text, "--idle-gap") == ns


def test_a_typed_time_is_exact_beyond_a_float() -> None:
    assert parse_duration("1234567890.123456789s", "--window") == 1_234_567_890_123_456_789


@pytest.mark.parametrize("text", ["", "10", "ms", "-1ms", "1e3ms", "1,2s", "10 parsecs", "nans", "٣s"])
def test_refuses_what_is_no_time_in_one_line_that_names_the_option(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_duration(text, "--idle-gap")
    assert str(refused.value).startswith("--idle-gap: ")
    assert "10ms" in str(refused.value)


def test_refuses_more_than_a_clock_can_hold() -> None:
    with pytest.raises(UsageError, match="longer than any recording"):
        parse_duration("99999999999s", "--window")
