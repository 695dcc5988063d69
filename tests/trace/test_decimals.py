"""Times are exact: decimal microseconds to nanoseconds, never through a float."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblescope.trace.decimals import LIMIT, nanoseconds, whole_number


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"0", 0),
        (b"829", 829_000),
        (b"100.7", 100_700),
        (b"0.03", 30),
        (b"5107654473621.029", 5_107_654_473_621_029),
        # As a float this would be 1790857026123456.8, which is 789 ns off by rounding.
        (b"1790857026123456.789", 1_790_857_026_123_456_789),
        (b"1.0005", 1_001),
        (b"1.00049", 1_000),
        (b"-5", -5_000),
        (b"-1.5005", -1_501),
        (b"1.7e15", 1_700_000_000_000_000_000),
        (b"12E-3", 12),
        (b"1e-9", 0),
        (b'"10"', 10_000),
        (b'"10.25"', 10_250),
    ],
)
def test_microseconds_become_nanoseconds(text: bytes, expected: int) -> None:
    assert nanoseconds(text) == expected


@pytest.mark.parametrize(
    "text",
    [b"", b"null", b"true", b"[]", b'"soon"', b"1.2.3", b"1_000", b"0x10", b"1e400", b"9" * 60, b"1" * 5000,
     b"9e18", b"-9e18", b'"\\u0031"'],
)  # fmt: skip
def test_what_is_no_time_is_none(text: bytes) -> None:
    assert nanoseconds(text) is None


@given(st.decimals(min_value=-(10**15), max_value=10**15, places=5))
def test_agrees_with_decimal_arithmetic(value: Decimal) -> None:
    expected = int((value * 1000).quantize(Decimal(1), ROUND_HALF_UP))
    assert nanoseconds(format(value, "f").encode()) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(7, 7), (7.0, 7), ("7", 7), (" -7 ", -7), (7.5, None), ("7.5", None), (True, None), (None, None),
     ([], None), (LIMIT, None), (-LIMIT, None), (float("inf"), None), ("9" * 100, None)],
)  # fmt: skip
def test_whole_numbers(value: Any, expected: int | None) -> None:
    assert whole_number(value) == expected
