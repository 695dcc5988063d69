"""What `--window` may say, and the part of the recording it means."""

from __future__ import annotations

import pytest

from bubblescope.errors import USAGE, UsageError
from bubblescope.report.window import RequestWindow, TimeWindow, parse_window, resolve
from tests.report.analyses import BEGIN_NS, MS, analysis, requested

#: Ten seconds.
WHOLE = analysis([[("compute", 10_000)], [("compute", 10_000)]])
WITH_REQUESTS = requested(
    WHOLE,
    [
        ("warm", 0, 100, 10, True),
        ("first", 1_000, 2_000, 32_000, False),
        ("second", 3_000, None, 32_000, False),
    ],
)


def test_a_request_is_asked_for_by_its_number() -> None:
    assert parse_window("request:2") == RequestWindow(2)


def test_times_have_units_of_their_own() -> None:
    assert parse_window("1.2s:3400ms") == TimeWindow(1200 * MS, 3400 * MS)


@pytest.mark.parametrize(
    "text", ["", "request", "request:", "request:x", "request:-1", "1.2s", "1:2", "1s-2s", "1s:2s:3s", "::"]
)
def test_anything_else_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_window(text)
    assert str(refused.value).startswith("--window: ")
    assert "\n" not in str(refused.value)
    assert refused.value.status == USAGE


@pytest.mark.parametrize("text", ["1s:1s", "2s:1s"])
def test_an_empty_window_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="empty"):
        parse_window(text)


def test_times_count_from_the_begin_of_the_whole_window() -> None:
    resolved = resolve(parse_window("1.5s:2s"), WHOLE)
    assert resolved.window_ns == (BEGIN_NS + 1500 * MS, BEGIN_NS + 2000 * MS)


def test_a_window_knows_what_it_shows() -> None:
    assert resolve(RequestWindow(1), WITH_REQUESTS).shows == "request 1"
    assert resolve(RequestWindow(1), WHOLE).shows == "burst 1"
    assert resolve(parse_window("1.5s:2s"), WHOLE).shows == "as asked for"


def test_a_window_ends_where_the_recording_ends() -> None:
    assert resolve(parse_window("9s:1000s"), WHOLE).window_ns == (
        BEGIN_NS + 9000 * MS,
        BEGIN_NS + 10_000 * MS,
    )


def test_a_window_after_the_recording_is_refused_with_its_length() -> None:
    with pytest.raises(UsageError, match=r"begins at 12\.0 s.*ends at 10\.0 s"):
        resolve(parse_window("12s:13s"), WHOLE)


def test_a_request_lasts_from_its_arrival_to_its_end_and_warm_ups_do_not_count() -> None:
    # `requested` ends a request 10 ms after its first token.
    resolved = resolve(RequestWindow(1), WITH_REQUESTS)
    assert resolved.window_ns == (BEGIN_NS + 1000 * MS, BEGIN_NS + 2010 * MS)
    assert resolved.assumed == ()


def test_a_request_that_never_ended_lasts_to_the_end_of_the_recording() -> None:
    assert resolve(RequestWindow(2), WITH_REQUESTS).window_ns == (
        BEGIN_NS + 3000 * MS,
        BEGIN_NS + 10_000 * MS,
    )


@pytest.mark.parametrize("number", [0, 3])
def test_a_request_that_is_not_there_is_refused_with_the_last_one(number: int) -> None:
    with pytest.raises(
        UsageError, match=rf"request:{number} does not exist; the first is 1, the last request is 2"
    ):
        resolve(RequestWindow(number), WITH_REQUESTS)


def test_without_a_request_table_a_burst_stands_in_and_that_is_said() -> None:
    resolved = resolve(RequestWindow(1), WHOLE)
    assert resolved.window_ns == WHOLE.window_ns
    assert [lost.what for lost in resolved.assumed] == ["requests"]
    assert "burst 1" in resolved.assumed[0].why


def test_a_burst_that_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match=r"does not exist.*the last burst of work"):
        resolve(RequestWindow(2), WHOLE)


def test_a_recording_without_work_has_no_first_burst() -> None:
    with pytest.raises(UsageError, match="no request and no work"):
        resolve(RequestWindow(1), analysis([]))
