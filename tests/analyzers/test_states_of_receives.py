"""Receives that a stage asks for before its device is told to: the host hears first that data is to come."""

from __future__ import annotations

from dataclasses import replace

from bubblescope.analyzers.analysis import analyze
from bubblescope.analyzers.results import Analysis, Options
from bubblescope.trace.model import Device, Run
from tests.analyzers.handmade import Slice, recv, send, trace_of
from tests.analyzers.spans import Span, spans_of

#: Stage 0 computes until 100 and sends; stage 1 computes until 10, and its device is told at 120 to receive.
KERNELS = (
    Slice(0, 0, 100), replace(send(0, 1, 100, 130), microbatch=0),
    Slice(1, 0, 10), replace(recv(1, 0, 120, 130), microbatch=0), Slice(1, 130, 180),
)  # fmt: skip
RUN = Run(devices=(Device(rank=0, stage=0), Device(rank=1, stage=1)))
FORWARDS = (Span("forward", 0, 0, 100), Span("forward", 1, 130, 180))


RECEIVE = Span("recv", 1, 10, 130, peer=0)


def analyzed(*received: Span) -> Analysis:
    trace = replace(trace_of(KERNELS, RUN), spans=spans_of((*FORWARDS, *received)))
    return analyze(trace, Options(idle_gap_ns=1000))


def states(analysis: Analysis) -> dict[str, int]:
    """Of stage 1, those that there are."""
    return {state: ns for state, ns in analysis.stages[1].states_ns.items() if ns}


def test_a_stage_that_asked_waits_until_the_other_begins_to_send() -> None:
    # GIVEN a receive that was asked for at 10
    found = analyzed(RECEIVE)
    # THEN it waited until 100, and for its own host until the receive began
    assert states(found) == {"compute": 60, "starved": 90, "host": 20, "transfer": 10}
    (blamed,) = (
        found.blame.loc[found.blame["cause"] == "compute", ["waiting_stage", "ns"]].to_numpy().tolist()
    )
    assert blamed == [1, 90]


def test_times_far_from_0_are_not_rounded() -> None:
    # GIVEN the same at times that no float holds, and a second receive that no span tells of
    far = (1 << 60) + 150
    later = (
        replace(send(0, 1, 180, 190), microbatch=1), replace(recv(1, 0, 180, 190), microbatch=1),
        Slice(1, 190, 200),
    )  # fmt: skip
    kernels = [replace(each, begin=far + each.begin, end=far + each.end) for each in (*KERNELS, *later)]
    spans = spans_of(
        [replace(each, begin=far + each.begin, end=far + each.end) for each in (*FORWARDS, RECEIVE)]
    )
    found = analyze(replace(trace_of(kernels, RUN), spans=spans), Options(idle_gap_ns=1000))
    assert states(found) == {"compute": 70, "starved": 90, "host": 20, "transfer": 20}


def test_one_that_asked_when_it_was_sent_already_waits_for_its_host() -> None:
    found = analyzed(Span("recv", 1, 105, 130, peer=0))
    assert states(found) == {"compute": 60, "host": 110, "transfer": 10}


def test_of_another_microbatch_nothing_is_told() -> None:
    found = analyzed(Span("recv", 1, 10, 130, microbatch=1, peer=0))
    assert states(found) == {"compute": 60, "host": 110, "transfer": 10}


def test_only_the_first_of_several_tensors_was_waited_for() -> None:
    # GIVEN a second tensor that stage 0 sends from 140 on, after work of its own
    late = replace(send(0, 1, 140, 160), microbatch=0), replace(recv(1, 0, 150, 160), microbatch=0)
    kernels = (*KERNELS[:4], Slice(0, 130, 140), *late, Slice(1, 160, 200))
    spans = spans_of((*FORWARDS[:1], Span("recv", 1, 10, 160, peer=0), Span("forward", 1, 160, 200)))
    found = analyze(replace(trace_of(kernels, RUN), spans=spans), Options(idle_gap_ns=1000))
    # THEN the 20 ns between the two are its host's
    assert states(found) == {"compute": 50, "starved": 90, "host": 20 + 20, "transfer": 20}


def test_one_that_asks_anew_for_each_tensor_waits_for_each() -> None:
    # GIVEN a second tensor that is asked for as soon as the first is being received, and sent from 140 on
    late = replace(send(0, 1, 140, 160), microbatch=0), replace(recv(1, 0, 150, 160), microbatch=0)
    kernels = (*KERNELS[:4], Slice(0, 130, 140), *late, Slice(1, 160, 200))
    received = Span("recv", 1, 10, 121, peer=0), Span("recv", 1, 121, 160, peer=0)
    spans = spans_of((*FORWARDS[:1], *received, Span("forward", 1, 160, 200)))
    found = analyze(replace(trace_of(kernels, RUN), spans=spans), Options(idle_gap_ns=1000))
    # THEN from 10 to 100 and from 130 to 140
    assert states(found) == {"compute": 50, "starved": 90 + 10, "host": 20 + 10, "transfer": 20}


def test_asking_while_another_rank_still_starts_is_no_step_yet() -> None:
    # GIVEN a start whose work ends on stage 0 long before its first step, and after stage 1 has asked
    start = Slice(0, -9_000, -8_000), Slice(1, -9_000, -8_900)
    spans = spans_of((*FORWARDS, Span("recv", 1, -8_500, 130, peer=0)))
    found = analyze(replace(trace_of((*start, *KERNELS), RUN), spans=spans), Options(idle_gap_ns=1000))
    assert found.window_ns == (0, 180)
    assert states(found) == {"compute": 60, "starved": 90, "host": 20, "transfer": 10}
