"""Who is to blame when: the stretches behind the blame matrix."""

from __future__ import annotations

from bubblescope.analyzers.analysis import analyze
from bubblescope.analyzers.results import WAITING_STATES
from tests.pipelines.engine import Engine, prefill
from tests.pipelines.execution import play
from tests.pipelines.recording import ORIGIN_NS, recorded


def test_a_stretch_of_waiting_changes_its_culprit_when_the_awaited_stage_changes_its_state() -> None:
    # GIVEN stage 0 computes 0..30 and 30..60, and each link takes 2
    analysis = analyze(recorded(play(Engine().program(prefill([30, 30], [10, 10])))))
    # THEN stage 1 receives at 30..32, computes 32..42, and waits 42..60 for stage 0 to compute
    rows = analysis.culprits[analysis.culprits["waiting_stage"] == 1]
    found = [
        (int(row.culprit_stage), str(row.cause), int(row.begin_ns) - ORIGIN_NS, int(row.end_ns) - ORIGIN_NS)
        for row in rows.itertuples()
    ]
    assert found == [(0, "compute", 42, 60)]


def test_stretches_are_disjoint_and_fill_the_waiting_of_each_stage() -> None:
    analysis = analyze(recorded(play(Engine(early=True).program(prefill([30] * 3, [10] * 3, [20] * 3)))))
    for stage in analysis.stages:
        rows = analysis.culprits[analysis.culprits["waiting_stage"] == stage.stage]
        begins, ends = rows["begin_ns"].to_numpy(), rows["end_ns"].to_numpy()
        assert (begins[1:] >= ends[:-1]).all()
        assert (ends - begins).sum() == sum(stage.states_ns[state] for state in WAITING_STATES)
