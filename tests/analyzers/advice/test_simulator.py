from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bubblescope.analyzers.advice.schedule import Schedule
from bubblescope.analyzers.advice.simulator import simulate
from tests.pipelines.engine import Engine, Step
from tests.pipelines.execution import play


def plan(stages: int, count: int, **changes: Any) -> Schedule:
    """One prompt of so many chunks, links and launches that take no time."""
    facts: dict[str, Any] = {
        "opens": np.arange(count) == 0,
        "release": np.zeros(count),
        "pause_ns": np.zeros((stages, count)),
        "hiccup_ns": np.zeros((stages, count)),
        "launch_ns": np.zeros(stages),
        "transfer_ns": np.zeros(stages),
        "in_flight": None,
        "handover_ns": np.full(stages, -np.inf),
        "first": np.array([0]),
        "last": np.array([count - 1]),
        "arrival": np.zeros(1),
    }
    return Schedule(**{**facts, **changes})


def test_a_microbatch_waits_for_its_stage_and_for_its_input() -> None:
    # GIVEN 1 in between on a stage, 2 on the way
    played = simulate(
        plan(2, 3, launch_ns=np.array([1, 1]), transfer_ns=np.array([0, 2])),
        np.array([[10.0, 10, 10], [4, 20, 4]]),
    )
    # THEN stage 0 runs 0-10, 11-21, 22-32; stage 1 gets its input at 12, 23 and 34, and is busy until 43
    assert played.begin_ns.tolist() == [[0, 11, 22], [12, 23, 44]]
    assert played.end_ns.tolist() == [[10, 21, 32], [16, 43, 48]]
    assert played.makespan_ns.tolist() == [48]


def test_no_more_than_the_limit_are_in_flight() -> None:
    # GIVEN one at a time, and 3 from the end of one to the begin of the next
    played = simulate(
        plan(2, 3, in_flight=1, transfer_ns=np.array([3, 0])), np.array([[10.0] * 3, [5.0] * 3])
    )
    assert played.begin_ns.tolist() == [[0, 18, 36], [10, 28, 46]]


def test_a_stage_may_have_to_wait_until_its_output_is_taken() -> None:
    # GIVEN stage 0 goes on 2 after stage 1 has ended the microbatch before the one handed over
    played = simulate(plan(2, 4, handover_ns=np.array([2, -np.inf])), np.array([[10.0] * 4, [30.0] * 4]))
    # THEN the third begins at 40 + 2, and stage 1, which has its input at 52, is busy until 70
    assert played.begin_ns.tolist() == [[0, 10, 42, 72], [10, 40, 70, 100]]


def test_pauses_and_hiccups_stay_as_they_were() -> None:
    pause, hiccup = np.zeros((2, 3)), np.zeros((2, 3))
    pause[1, 0], hiccup[0, 1] = 7, 100
    played = simulate(plan(2, 3, pause_ns=pause, hiccup_ns=hiccup), np.array([[10.0] * 3, [5.0] * 3]))
    assert played.begin_ns.tolist() == [[0, 10, 120], [17, 120, 130]]


def test_prompts_begin_when_they_are_there_and_count_from_their_arrival() -> None:
    # GIVEN a second prompt at 12 that queues behind the first, and a third into an empty pipeline
    schedule = plan(
        1,
        3,
        opens=np.array([True, False, True]),
        release=np.array([0.0, 12, 0]),
        first=np.array([0, 1, 2]),
        last=np.array([0, 1, 2]),
        arrival=np.array([0.0, 12, 0]),
    )
    played = simulate(schedule, np.array([[20.0, 5, 6]]))
    assert played.makespan_ns.tolist() == [20, 5, 6]
    assert played.served_ns.tolist() == [20, 13, 6]


@pytest.mark.parametrize("seed", range(20))
def test_agrees_with_a_pipeline_played_launch_by_launch(seed: int) -> None:
    # GIVEN a pipeline whose messages always find room and travel for 3
    rng = np.random.default_rng(seed)
    stages, count = int(rng.integers(2, 6)), int(rng.integers(1, 10))
    times = rng.integers(5, 60, (stages, count))
    steps = [Step(tuple(each.tolist())) for each in times.T]
    execution = play(Engine(link=3, early=True, buffers=count + 1).program(steps))
    # THEN both simulators agree on every begin
    links = np.full(stages, 3.0)
    begins = simulate(plan(stages, count, transfer_ns=links), times.astype(np.float64)).begin_ns
    computing = [each for each in execution.works if each.computes]
    right = {(stage, each.begin) for each in computing for stage in [each.rank]}
    assert {(stage, int(begin)) for stage, of_stage in enumerate(begins) for begin in of_stage} == right
