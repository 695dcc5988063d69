"""Time in which the state of a sequence is saved or restored, in the states and in the requests' TTFT."""

from __future__ import annotations

from bubblescope.analyzers.analysis import analyze
from tests.analyzers.prompts_saved import MS, SAVED, copied, prompt, served
from tests.analyzers.spans import Span, recording


def test_saving_before_a_prompt_is_host_and_not_fill() -> None:
    # GIVEN bursts from 0 to 91 and on to 151, in which 40 and 20 ms are saved before anything is computed
    first, second = analyze(served(SAVED)).stages
    # THEN the first device fills from 0 to 10 and from 50 to 60; the burst is one, as nothing lies between
    assert {state: ns / MS for state, ns in first.states_ns.items() if ns} == {
        "compute": 40, "host": 40 + 20 + (120 - 80 - 20), "fill": 20, "drain": 151 - 140,
    }  # fmt: skip
    assert {state: ns / MS for state, ns in second.states_ns.items() if ns} == {
        "compute": 40, "host": 40 + 20 + (130 - 90 - 20), "fill": 30, "drain": 1,
    }  # fmt: skip


def test_every_stage_waits_for_what_its_host_copies_and_for_its_host() -> None:
    blame = analyze(served(SAVED)).blame
    assert blame[["waiting_stage", "culprit_stage", "cause"]].values.tolist() == [
        [0, 0, "state"], [0, 0, "host"], [1, 1, "state"], [1, 1, "host"],
    ]  # fmt: skip
    assert blame["ns"].tolist() == [60 * MS, 20 * MS, 60 * MS, 20 * MS]


def test_a_stage_that_waits_for_another_waits_for_what_its_host_copies() -> None:
    # GIVEN stage 1 asks at 30 for what stage 0 computes from 60 to 70, and a state is saved from 40 to 50
    spans = [
        Span("forward", 0, 0, 10 * MS), Span("forward", 1, 10 * MS, 20 * MS),
        Span("forward", 0, 60 * MS, 70 * MS, 1), Span("send", 0, 70 * MS, 71 * MS, 1, peer=1),
        Span("recv", 1, 30 * MS, 71 * MS, 1, peer=0), Span("forward", 1, 71 * MS, 80 * MS, 1),
        copied("save", 40, 50, 10**9),
    ]  # fmt: skip
    waits = analyze(recording(spans, 2, {})).culprits
    waited = waits[(waits["waiting_stage"] == 1) & (waits["culprit_stage"] == 0)]
    told = [
        (cause, (e - b) // MS) for cause, b, e in waited[["cause", "begin_ns", "end_ns"]].to_numpy().tolist()
    ]
    assert told == [("host", 10), ("state", 10), ("host", 10), ("compute", 10)]


def test_saving_is_a_part_of_its_own_of_the_ttft() -> None:
    first, second = analyze(served(SAVED)).requests
    for request, saved in ((first, 40), (second, 20)):
        assert request.breakdown_ns["state"] == saved * MS
        assert sum(request.breakdown_ns.values()) == request.ttft_ns
    # 91 ms: 10 and 10 in the pipeline, 40 saved, 30 computed, 1 until the token is there
    assert {part: ns / MS for part, ns in first.breakdown_ns.items() if ns} == {
        "bubble": 20, "state": 40, "compute_stage_0": 20, "compute_stage_1": 10, "outside": 1,
    }  # fmt: skip


def test_without_copies_no_such_part_is_there() -> None:
    analysis = analyze(served(()))
    assert "state" not in analysis.requests[0].breakdown_ns
    assert analysis.stages[0].states_ns["fill"] == 60 * MS


def test_saving_while_a_device_computes_takes_nothing_from_it() -> None:
    beside = analyze(served([copied("save", 62, 88, 10**9)]))
    assert [stage.states_ns for stage in beside.stages] == [s.states_ns for s in analyze(served(())).stages]


def test_what_the_host_copies_is_no_work_of_a_device() -> None:
    # GIVEN no requests, and 5 ms of saving in the 30 between two prompts
    saved = copied("save", 95, 100, 10**9)
    analysis = analyze(recording([*prompt(0, 60), *prompt(1, 120), saved], 2, {}))
    # THEN each prompt is a burst, and the window is that of the devices' work
    assert analysis.bursts["begin_ns"].tolist() == [60 * MS, 120 * MS]
    assert analysis.window_ns == (60 * MS, 150 * MS)
