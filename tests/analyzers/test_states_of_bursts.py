"""Bursts of requests: fill, drain, what is idle, and decode steps that wait for tokens."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.pipelines.agreement import examined
from tests.pipelines.engine import ACTIVATION_BYTES, Engine, Step, decode
from tests.pipelines.execution import play

#: Two prompts of two chunks, 200 ns apart; the first is done at 44 and the second takes 44 ns too.
TWO_PROMPTS = [Step((10, 10)), Step((10, 20)), Step((10, 10), at=200), Step((10, 20), at=200)]

#: A prompt whose tokens are with stage 0 at 46, and one decode step, which the host launches at 200. Its
#: messages are as big as those of the prompt, so that only its span tells what it is.
LATE_DECODE = [
    Step((10, 10)),
    Step((10, 20), samples=True),
    replace(decode(4, 6, at=200), size=ACTIVATION_BYTES),
]


def test_between_two_bursts_all_is_idle() -> None:
    # WHEN 156 quiet ns lie between the prompts and more than 50 are idle
    right = examined(play(Engine().program(TWO_PROMPTS)), idle_gap=50)
    # THEN each prompt fills and drains for itself
    assert right.bursts == ((0, 44), (200, 244))
    assert right.totals(0) == {
        "compute": 40,
        "blocked": 2 * 2,
        "transfer": 2 * 2,
        "drain": 2 * 20,
        "idle": 156,
    }
    assert right.totals(1) == {"fill": 2 * 10, "compute": 60, "transfer": 4 * 2, "idle": 156}


def test_a_quiet_time_of_just_the_gap_is_not_idle() -> None:
    # WHEN 156 quiet ns lie between the prompts and only more than 156 are idle
    right = examined(play(Engine().program(TWO_PROMPTS)), idle_gap=156)
    # THEN there is one burst, and both hosts have launched nothing in that time
    assert right.bursts == ((0, 244),)
    assert right.totals(0)["host"] == 20 + 156
    assert right.totals(1)["host"] == 156
    assert "idle" in examined(play(Engine().program(TWO_PROMPTS)), idle_gap=155).totals(0)


def test_a_chunk_that_costs_little_does_not_hide_an_idle_time() -> None:
    # GIVEN three prompts of one chunk each, of which the last costs eleven times as much as the others
    steps = [Step((10, 10)), Step((10, 10), at=1000), Step((110, 110), at=2000)]
    right = examined(play(Engine().program(steps)), idle_gap=50)
    assert right.bursts == ((0, 22), (1000, 1022), (2000, 2222))


def test_a_request_table_says_what_is_idle() -> None:
    # GIVEN requests open from 0 to 60 and from 190 to 244
    right = examined(play(Engine().program(TWO_PROMPTS)), requests=[(0, 60), (190, 244)])
    # THEN draining lasts until the end of the first and filling begins with the second
    assert right.totals(0) == {
        "compute": 40,
        "blocked": 2 * 2,
        "transfer": 2 * 2,
        "drain": 36 + 20,
        "fill": 10,
        "idle": 130,
    }
    assert right.totals(1)["fill"] == 10 + 20


def test_overlapping_requests_make_one_burst() -> None:
    right = examined(play(Engine().program(TWO_PROMPTS)), requests=[(0, 100), (90, 230), (220, 244)])
    assert right.bursts == ((0, 244),)
    assert "idle" not in right.totals(0)


def test_a_quiet_time_before_a_decode_step_is_not_idle_where_phases_are_known() -> None:
    right = examined(play(Engine().program(LATE_DECODE)), idle_gap=50, phases=True)
    # THEN stage 0 waits for tokens until 44 and then for its host from 46 to 200; nobody fills again
    assert right.bursts == ((0, 214),)
    assert right.totals(0) == {
        "compute": 24,
        "transfer": 2 + 2 + 2 + 2,
        "starved": 2 + 20,
        "host": 154,
        "drain": 6,
    }
    assert right.totals(1) == {"fill": 10, "compute": 36, "transfer": 5 * 2, "host": 154, "starved": 4}


def test_a_quiet_time_before_a_decode_step_is_idle_where_phases_are_not_known() -> None:
    right = examined(play(Engine().program(LATE_DECODE)), idle_gap=50)
    assert right.bursts == ((0, 46), (200, 214))
    assert right.totals(0) == {"compute": 24, "starved": 2, "transfer": 8, "drain": 20 + 6, "idle": 154}


@pytest.mark.parametrize("tokens", ["broadcast", "return"])
def test_decode_waits_for_tokens_and_drains_after_the_last_step(tokens: str) -> None:
    # GIVEN a prompt of two chunks and two decode steps of 4 and 6 ns, tokens back in 2 ns
    steps = [Step((10, 10)), Step((10, 10), samples=True), decode(4, 6), decode(4, 6)]
    right = examined(play(Engine(tokens=tokens).program(steps)), phases=True)
    # THEN stage 0 waits for the tokens of the prompt from 20 to 34 (beside its last send: 2 ns) and for
    # those of the first step for 6; for those of the last step nobody waits any more
    assert right.totals(0) == {"compute": 20 + 2 * 4, "starved": 12 + 6, "transfer": 6 * 2, "drain": 6}
    # and stage 1 for each step while stage 0 computes it
    assert right.totals(1) == {"fill": 10, "compute": 20 + 2 * 6, "starved": 2 * 4, "transfer": 7 * 2}


def test_a_window_is_a_cut_of_the_whole() -> None:
    # GIVEN an execution of 244 ns of which only 5 to 215 is looked at
    whole = examined(play(Engine().program(TWO_PROMPTS)), idle_gap=50)
    right = examined(play(Engine().program(TWO_PROMPTS)), idle_gap=50, window=(5, 215))
    # THEN each nanosecond is what it is in the whole
    assert right.states == tuple(states[5:215] for states in whole.states)
