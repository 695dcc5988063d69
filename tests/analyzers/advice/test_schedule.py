from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from bubblescope.analyzers.advice.prompts import Prefill, Prompt
from bubblescope.analyzers.advice.schedule import Schedule, schedule
from tests.analyzers.advice.recordings import occupied


def recording(rows: Sequence[Sequence[tuple[int, int]]], prompts: Sequence[Prompt] | None = None) -> Prefill:
    """Begins and ends per stage, as one stretch; one prompt unless told."""
    count = len(rows[0])
    times = np.array(rows, dtype=np.int64)
    work = replace(
        occupied([[1] * count] * len(rows)),
        begin_ns=times[:, :, 0],
        end_ns=times[:, :, 1],
        layers_ns=times[:, :, 1] - times[:, :, 0],
    )
    return Prefill(work, tuple(prompts or (Prompt(0, count - 1),)), ((0, count),))


def scheduled(prefill: Prefill, limit: int | None = None) -> Schedule:
    return schedule(prefill, np.zeros(prefill.work.begin_ns.shape), limit)


#: Stage 0 goes on 2 after each end; stage 1 gets its input 5 after that and is always there for it.
PIPELINED = [
    [(0, 100), (102, 202), (304 - 100, 304), (306, 406)],
    [(105, 135), (207, 237), (309, 339), (411, 441)],
]


def test_launches_and_links_are_the_usual_delays() -> None:
    plan = scheduled(recording(PIPELINED))
    assert plan.launch_ns.tolist() == [2, 2]
    assert plan.transfer_ns.tolist() == [0, 5]
    assert plan.in_flight is None
    assert not plan.disturbed().any()


def test_a_stage_that_holds_up_the_others_shows_its_own_launches() -> None:
    # GIVEN stage 1 takes longer and goes on 7 after each end
    plan = scheduled(recording([[(0, 50), (52, 102), (104, 154)], [(55, 155), (162, 262), (269, 369)]]))
    assert plan.launch_ns.tolist() == [2, 7]
    assert plan.transfer_ns.tolist() == [0, 5]


def test_an_engine_that_takes_one_after_the_other_has_a_limit() -> None:
    # GIVEN stage 0 begins 3 after stage 1's end, each time
    plan = scheduled(recording([[(0, 50), (83, 133), (166, 226)], [(50, 80), (133, 163), (226, 266)]]))
    assert plan.in_flight == 1
    assert plan.transfer_ns.tolist() == [3, 0]


def test_a_slow_host_is_no_limit() -> None:
    # GIVEN stage 0 begins 30 after its own end, and stage 1 is done after 5 of them
    plan = scheduled(recording([[(0, 50), (80, 130), (160, 210)], [(50, 55), (130, 135), (210, 215)]]))
    assert plan.in_flight is None
    assert plan.launch_ns[0] == 30


def test_a_stage_that_goes_on_once_its_output_is_taken() -> None:
    # GIVEN three stages of 10, 30 and 10: stage 0 hands on 4 after stage 1 is free, then goes on
    rows = [
        [(0, 10), (14, 24), (48, 58), (82, 92), (116, 126)],
        [(14, 44), (48, 78), (82, 112), (116, 146), (150, 180)],
        [(48, 58), (82, 92), (116, 126), (150, 160), (184, 194)],
    ]
    plan = scheduled(recording(rows))
    assert plan.handover_ns[0] == 4
    assert plan.handover_ns[-1] == -np.inf
    # THEN that is neither a limit on what is in flight nor a slow launch
    assert plan.in_flight is None
    assert plan.launch_ns[0] == 4
    assert not plan.disturbed().any()


def test_a_stage_that_runs_ahead_waits_for_no_handover() -> None:
    # GIVEN the same stages, and room for what stage 0 makes
    rows = [
        [(0, 10), (11, 21), (22, 32), (33, 43), (44, 54)],
        [(11, 41), (42, 72), (73, 103), (104, 134), (135, 165)],
        [(42, 52), (73, 83), (104, 114), (135, 145), (166, 176)],
    ]
    assert scheduled(recording(rows)).handover_ns.tolist() == [-np.inf] * 3


def test_a_limit_that_the_engine_told_is_believed_if_it_kept_to_it() -> None:
    # GIVEN at most two in the pipeline at once
    assert scheduled(recording(PIPELINED), limit=2).in_flight == 2
    assert scheduled(recording(PIPELINED), limit=1).in_flight is None


def test_a_gap_that_nothing_explains_is_a_pause() -> None:
    # GIVEN stage 1 begins 40 late once, and all that follows is later as well
    late = [PIPELINED[0], [(105, 135), (247, 277), (309, 339), (411, 441)]]
    plan = scheduled(recording(late))
    assert np.argwhere(plan.pause_ns).tolist() == [[1, 1]]
    assert plan.pause_ns[1, 1] == 40
    assert plan.disturbed().tolist() == [True]


def test_what_follows_a_hiccup_shows_no_usual_delays() -> None:
    # GIVEN one microbatch that takes 1000 longer on stage 1, which then goes on 60 late, twice
    begins = [102 * number for number in range(5)] + [1600 + 102 * number for number in range(5)]
    last = [(begin + 105, begin + 135) for begin in begins]
    last[2:5] = [(309, 1339), (1399, 1429), (1489, 1519)]
    hiccup = np.zeros((2, 10))
    hiccup[1, 2] = 1000
    plan = schedule(recording([[(begin, begin + 100) for begin in begins], last]), hiccup, None)
    # THEN both are as everywhere else
    assert plan.launch_ns.tolist() == [2, 2]
    assert plan.transfer_ns.tolist() == [0, 5]
    # AND where most of a recording is like that, it counts all the same
    assert schedule(recording([PIPELINED[0][1:], last[1:4]]), hiccup[:, 1:4], None).launch_ns[1] == 60


def test_only_the_prompt_that_it_fell_into_is_disturbed() -> None:
    # GIVEN a hiccup in the second of two prompts
    hiccup = np.zeros((2, 4))
    hiccup[0, 2] = 1000
    plan = schedule(recording(PIPELINED, [Prompt(0, 1), Prompt(2, 3)]), hiccup, None)
    assert plan.disturbed().tolist() == [False, True]
    # WHEN only the calm one is looked at THEN its stretch is kept whole
    calm, columns = plan.only(np.array([0]))
    assert columns.tolist() == [0, 1, 2, 3]
    assert (calm.first.tolist(), calm.last.tolist()) == ([0], [1])


@pytest.mark.parametrize(
    ("arrival", "begin", "release", "arrived"),
    [
        pytest.param(None, 154, 0, 0, id="queued, and its request is not known"),
        pytest.param(60, 154, 0, 60, id="queued since its request came"),
        pytest.param(None, 300, 300, 300, id="came later than the stage was free"),
    ],
)
def test_a_prompt_is_there_when_it_came(arrival: int | None, begin: int, release: int, arrived: int) -> None:
    rows = [
        [(0, 50), (52, 102), (104, 152), (begin, begin + 50)],
        [(52, 82), (104, 134), (154, 400), (401, 430)],
    ]
    plan = scheduled(recording(rows, [Prompt(0, 2), Prompt(3, 3, arrival_ns=arrival)]))
    assert plan.release.tolist() == [0, 0, 0, release]
    assert plan.arrival.tolist() == [0, arrived]
    assert not plan.disturbed().any()
