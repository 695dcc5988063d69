"""Hold an analysis against the truth, nanosecond by nanosecond."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TypeVar

from bubblescope.analyzers.analysis import analyze
from bubblescope.analyzers.results import STATES, Analysis, Options
from tests.pipelines.execution import Execution
from tests.pipelines.recording import ORIGIN_NS, recorded
from tests.pipelines.truth import Blame, Interval, Truth, truth

K = TypeVar("K")


def examined(
    execution: Execution,
    *,
    idle_gap: int = 1000,
    window: Interval | None = None,
    requests: Sequence[Interval] = (),
    phases: bool = False,
) -> Truth:
    """The truth about an execution, after the analysis of its recording was found to say the same."""
    right = truth(execution, idle_gap, window=window, requests=requests, phases_known=phases)
    flag = (window[0] + ORIGIN_NS, window[1] + ORIGIN_NS) if window else None
    options = Options(window_ns=flag, idle_gap_ns=idle_gap)
    assert_agrees(analyze(recorded(execution, requests=requests, phases=phases), options), right)
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
    if len(right.leaders) == len(right.states):
        _assert_concurrency(analysis, right)


def _assert_concurrency(analysis: Analysis, right: Truth) -> None:
    together = {int(row.stages): int(row.ns) for row in analysis.concurrency.itertuples() if row.stages}
    assert _nonzero(together) == {stages: ns for stages, ns in right.concurrency().items() if stages}


def _blame(analysis: Analysis) -> Blame:
    rows = [
        ((int(row.waiting_stage), int(row.culprit_stage), str(row.cause)), int(row.ns))
        for row in analysis.blame.itertuples()
    ]
    assert len(dict(rows)) == len(rows), "the same blame stands in two rows"
    return {key: ns for key, ns in rows if ns}


def _nonzero(figures: Mapping[K, int]) -> dict[K, int]:
    return {key: int(ns) for key, ns in figures.items() if ns}


def _assert_timeline(analysis: Analysis, right: Truth, device: int) -> None:
    rows = analysis.timeline[analysis.timeline["device"] == device]
    stretches = [
        (int(row.begin_ns) - ORIGIN_NS, int(row.end_ns) - ORIGIN_NS, str(row.state))
        for row in rows.itertuples()
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
