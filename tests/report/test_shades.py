"""States over time as marks."""

from __future__ import annotations

from bubblescope.analyzers.results import STATES
from bubblescope.report.shades import ASCII_MARKS, MARKS, strip
from tests.report.analyses import MS, analysis


def _strip(stretches: list[tuple[str, int]], cells: int) -> list[str | None]:
    built = analysis([stretches])
    return strip(built.timeline, built.window_ns, cells)


def test_marks_stand_where_the_states_were() -> None:
    shown = _strip([("fill", 20), ("compute", 50), ("drain", 30)], 10)
    assert shown == ["fill"] * 2 + ["compute"] * 5 + ["drain"] * 3


def test_states_finer_than_a_mark_keep_their_shares() -> None:
    # 100 microbatches of 6 ms compute and 4 ms waiting, in 50 marks.
    shown = _strip([("compute", 6), ("starved", 4)] * 100, 50)
    assert shown.count("compute") == 30
    assert shown.count("starved") == 20


def test_a_state_is_never_shown_where_it_was_not() -> None:
    shown = _strip([("compute", 6), ("starved", 4)] * 10 + [("idle", 100)], 20)
    assert set(shown[:10]) == {"compute", "starved"}
    assert set(shown[10:]) == {"idle"}


def test_a_window_wider_than_the_lane_shows_nothing_there() -> None:
    built = analysis([[("compute", 50)]])
    begin_ns, end_ns = built.window_ns
    assert strip(built.timeline, (begin_ns, end_ns + 50 * MS), 4) == ["compute", "compute", None, None]


def test_a_narrow_window_of_a_few_nanoseconds_is_drawn() -> None:
    built = analysis([[("compute", 50)]])
    begin_ns, _ = built.window_ns
    shown = strip(built.timeline, (begin_ns, begin_ns + 3), 10)
    assert len(shown) == 10
    assert shown.count("compute") == 3


def test_a_window_of_years_is_drawn() -> None:
    built = analysis([[("compute", 50), ("starved", 50)]])
    assert len(strip(built.timeline, (0, 2**62), 200)) == 200


def test_every_state_has_a_mark_of_its_own() -> None:
    for marks in (MARKS, ASCII_MARKS):
        assert set(marks) == set(STATES)
        assert len(set(marks.values())) == len(STATES)
    assert all(mark.isascii() for mark in ASCII_MARKS.values())
