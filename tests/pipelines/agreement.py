"""Hold an analysis against the truth, nanosecond by nanosecond."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import pandas as pd

from bubblescope.analyzers.analysis import analyze
from bubblescope.analyzers.results import STATES, Analysis, Options
from tests.pipelines.execution import Execution
from tests.pipelines.recording import ORIGIN_NS, recorded
from tests.pipelines.truth import Blame, Culprit, Interval, Truth, truth

K = TypeVar("K")


def examined(
    execution: Execution,
    *,
    idle_gap: int = 1000,
    window: Interval | None = None,
    requests: Sequence[Interval] = (),
    phases: bool = False,
    copies: Sequence[Interval] = (),
) -> Truth:
    """The truth about an execution, after the analysis of its recording was found to say the same."""
    right = truth(execution, idle_gap, window=window, requests=requests, phases_known=phases, copies=copies)
    flag = (window[0] + ORIGIN_NS, window[1] + ORIGIN_NS) if window else None
    options = Options(window_ns=flag, idle_gap_ns=idle_gap)
    trace = recorded(execution, requests=requests, phases=phases, copies=copies)
    assert_agrees(analyze(trace, options), right)
    return right


def assert_agrees(analysis: Analysis, right: Truth) -> None:
    """Every state of every nanosecond of every device, every total and all blame are the truth's."""
    begin, end = (ns + ORIGIN_NS for ns in right.window)
    assert analysis.window_ns == (begin, end)
    assert analysis.pipeline
    assert [device.device for device in analysis.devices] == list(range(len(right.states)))
    for device in analysis.devices:
        _assert_timeline(analysis, right, device.device)
        assert set(device.states_ns) == set(STATES)
        assert sum(device.states_ns.values()) == end - begin
        assert _nonzero(device.states_ns) == right.totals(device.device)
    blame = _blame(analysis)
    assert [stage.stage for stage in analysis.stages] == list(range(len(right.leaders)))
    for stage, leader in zip(analysis.stages, right.leaders, strict=True):
        assert stage.devices[0] == leader
        assert _nonzero(stage.states_ns) == right.totals(leader)
        waiting = sum(stage.states_ns[state] for state in ("starved", "blocked", "host"))
        assert sum(ns for (waits, _, _), ns in blame.items() if waits == stage.stage) == waiting
    assert blame == right.blame
    _assert_culprits(analysis, right)
    if len(right.leaders) == len(right.states):
        _assert_concurrency(analysis, right)


def _assert_concurrency(analysis: Analysis, right: Truth) -> None:
    together = {stages: ns for stages, ns in _rows(analysis.concurrency, "stages", "ns") if stages}
    assert _nonzero(together) == {stages: ns for stages, ns in right.concurrency().items() if stages}


def _assert_culprits(analysis: Analysis, right: Truth) -> None:
    told: list[list[Culprit | None]] = [[None] * len(culprits) for culprits in right.culprits]
    origin = analysis.window_ns[0]
    for stage, culprit, cause, begin, end in _rows(
        analysis.culprits, "waiting_stage", "culprit_stage", "cause", "begin_ns", "end_ns"
    ):
        for ns in range(begin - origin, end - origin):
            assert told[stage][ns] is None, f"two culprits of stage {stage} at {ns}"
            told[stage][ns] = (culprit, cause)
    assert [tuple(culprits) for culprits in told] == list(right.culprits)


def _blame(analysis: Analysis) -> Blame:
    rows = _rows(analysis.blame, "waiting_stage", "culprit_stage", "cause", "ns")
    blame = {(stage, culprit, cause): ns for stage, culprit, cause, ns in rows}
    assert len(blame) == len(rows), "the same blame stands in two rows"
    return {key: ns for key, ns in blame.items() if ns}


def _rows(frame: pd.DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    return list(zip(*(frame[name].tolist() for name in columns), strict=True))


def _nonzero(figures: Mapping[K, int]) -> dict[K, int]:
    return {key: ns for key, ns in figures.items() if ns}


def _assert_timeline(analysis: Analysis, right: Truth, device: int) -> None:
    rows = analysis.timeline[analysis.timeline["device"] == device]
    stretches = [
        (begin - ORIGIN_NS, end - ORIGIN_NS, state)
        for begin, end, state in _rows(rows, "begin_ns", "end_ns", "state")
    ]
    assert all(one[1] == other[0] for one, other in pairwise(stretches)), "rows leave holes or overlap"
    assert (stretches[0][0], stretches[-1][1]) == right.window
    told = [state for begin, end, state in stretches for _ in range(begin, end)]
    wrong = [
        f"at {ns} ns {state}, in truth {true}"
        for ns, state, true in zip(range(*right.window), told, right.states[device], strict=True)
        if state != true
    ]
    assert not wrong, f"device {device}: {len(wrong)} ns are wrong, the first {wrong[0]}"
