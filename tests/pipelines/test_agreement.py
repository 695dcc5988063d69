"""What holds an analysis against the truth can fail."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bubblescope.analyzers.analysis import analyze
from bubblescope.analyzers.results import BLAME, CAUSES, STATES, TIMELINE, Analysis, DeviceStates
from bubblescope.trace import frames
from tests.pipelines.agreement import assert_agrees
from tests.pipelines.engine import Engine, prefill
from tests.pipelines.execution import play
from tests.pipelines.recording import recorded
from tests.pipelines.truth import truth

UNEVEN = play(Engine().program(prefill([30] * 3, [10] * 3)))
EVEN = play(Engine().program(prefill([10] * 3, [10] * 3)))


def constant(analysis: Analysis, state: str) -> Analysis:
    """The analysis of one who says that every device was in one state all the time."""
    begin, end = analysis.window_ns
    columns: dict[str, list[Any]] = {
        "device": [0, 1],
        "state": [state] * 2,
        "begin_ns": [begin] * 2,
        "end_ns": [end] * 2,
    }
    states_ns = {other: end - begin if other == state else 0 for other in STATES}
    return replace(
        analysis,
        timeline=frames.table(TIMELINE, columns),
        devices=tuple(DeviceStates(device.device, device.stage, states_ns) for device in analysis.devices),
        stages=tuple(replace(stage, states_ns=states_ns) for stage in analysis.stages),
    )


@pytest.mark.parametrize("state", STATES)
def test_a_constant_state_is_refused(state: str) -> None:
    with pytest.raises(AssertionError):
        assert_agrees(constant(analyze(recorded(UNEVEN)), state), truth(UNEVEN, 1000))


@pytest.mark.parametrize("culprit", [-1, 0, 1])
@pytest.mark.parametrize("cause", CAUSES)
def test_only_the_true_blame_passes(culprit: int, cause: str) -> None:
    # GIVEN that all 36 ns that stage 1 waits are blamed on one stage for one cause
    columns: dict[str, list[Any]] = {
        "waiting_stage": [1],
        "culprit_stage": [culprit],
        "cause": [cause],
        "ns": [36],
    }
    said = replace(analyze(recorded(UNEVEN)), blame=frames.table(BLAME, columns))
    # THEN it must be the computing of stage 0
    if (culprit, cause) == (0, "compute"):
        assert_agrees(said, truth(UNEVEN, 1000))
    else:
        with pytest.raises(AssertionError):
            assert_agrees(said, truth(UNEVEN, 1000))


def test_the_analysis_of_another_execution_is_refused() -> None:
    with pytest.raises(AssertionError):
        assert_agrees(analyze(recorded(EVEN)), truth(UNEVEN, 1000))
