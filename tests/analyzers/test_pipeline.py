"""Stages from who sends to whom."""

from __future__ import annotations

from bubblescope.analyzers.analysis import analyze
from bubblescope.analyzers.operations import operations
from bubblescope.analyzers.pipeline import pipeline
from bubblescope.trace.model import Device, Run, Trace
from tests.analyzers.handmade import Slice, collective, recv, send, trace_of

TOKEN = 8


def stages(trace: Trace) -> tuple[int | None, ...]:
    return pipeline(trace, operations(trace).frame).stage_of


def test_stages_follow_the_flow_of_activations_whatever_the_ranks() -> None:
    # GIVEN activations that go 2 → 0 → 1
    trace = trace_of([send(2, 0, 0, 5), recv(0, 2, 0, 5), send(0, 1, 9, 12), recv(1, 0, 3, 12)], devices=3)
    assert stages(trace) == (1, 2, 0)


def test_tokens_that_flow_back_do_not_turn_the_pipeline_round() -> None:
    back = [send(1, 0, 20, 22, TOKEN), recv(0, 1, 1, 22, TOKEN)]
    assert stages(trace_of([send(0, 1, 9, 12), recv(1, 0, 3, 12), *back])) == (0, 1)


def test_a_ring_that_returns_tokens_to_the_first_stage_is_no_circle() -> None:
    forward = [s for a, b in ((0, 1), (1, 2)) for s in (send(a, b, 9, 12), recv(b, a, 3, 12))]
    assert stages(trace_of([*forward, send(2, 0, 20, 22, TOKEN), recv(0, 2, 1, 22, TOKEN)], devices=3)) == (
        0,
        1,
        2,
    )


def test_gradients_flow_back_as_heavy_as_activations_but_later() -> None:
    back = [send(1, 0, 20, 22), recv(0, 1, 15, 22)]
    assert stages(trace_of([send(0, 1, 9, 12), recv(1, 0, 3, 12), *back])) == (0, 1)


def test_a_true_circle_is_no_pipeline_and_said() -> None:
    around = [s for a, b in ((0, 1), (1, 2), (2, 0)) for s in (send(a, b, 9, 12), recv(b, a, 3, 12))]
    trace = trace_of(around, devices=3)
    found = pipeline(trace, operations(trace).frame)
    assert found.stages == () and found.lost[0].what == "stages unknown"


def test_collectives_alone_make_no_pipeline() -> None:
    assert stages(trace_of([collective(0, 0, 5), collective(1, 2, 5), Slice(0, 6, 9)])) == (None, None)


def test_two_chains_side_by_side_share_their_stages() -> None:
    # GIVEN tensor parallel 2 inside pipeline parallel 2: 0 → 2 and 1 → 3
    chains = [s for a, b in ((0, 2), (1, 3)) for s in (send(a, b, 9, 12), recv(b, a, 3, 12))]
    assert stages(trace_of(chains, devices=4)) == (0, 0, 1, 1)


def test_stages_that_the_recording_names_win() -> None:
    run = Run(devices=(Device(rank=0, stage=1), Device(rank=1, stage=0)))
    assert stages(trace_of([send(0, 1, 9, 12), recv(1, 0, 3, 12)], run)) == (1, 0)


def test_a_stage_that_did_nothing_is_no_stage() -> None:
    # GIVEN three named stages of which one has no work, and two of which only one has
    three = Run(devices=tuple(Device(rank=rank, stage=rank) for rank in range(3)))
    assert [stage.stage for stage in analyze(trace_of([Slice(0, 0, 5), Slice(2, 5, 9)], three)).stages] == [
        0,
        2,
    ]
    two = Run(devices=(Device(rank=0, stage=0), Device(rank=1, stage=1)))
    alone = analyze(trace_of([Slice(0, 0, 5)], two))
    # THEN the second is no pipeline, though its devices keep the stage that the recording names
    assert not alone.pipeline and alone.stages == ()
    assert [device.stage for device in alone.devices] == [0, 1]


def test_without_device_activity_there_is_no_verdict() -> None:
    run = Run(devices=(Device(rank=0, stage=0), Device(rank=1, stage=1)))
    ranges = [Slice(device, 0, 9, "run_batch", category="host_range") for device in (0, 1)]
    found = analyze(trace_of(ranges, run))
    assert not found.pipeline and found.bubble_ratio is None
    assert [dict(device.states_ns) for device in found.devices] == [{}, {}]
    assert any(lost.what == "device activity" for lost in found.lost)


def test_a_marked_window_that_is_empty_is_not_used() -> None:
    run = Run(devices=(Device(rank=0, stage=0), Device(rank=1, stage=1)), window_ns=(9, 9))
    found = analyze(trace_of([Slice(0, 0, 5), Slice(1, 5, 9)], run))
    assert (found.window_ns, found.window_source) == ((0, 9), "device work")


def test_a_device_without_work_speaks_for_no_stage() -> None:
    # GIVEN two devices of stage 0 that computed nothing, of which only the second did anything
    run = Run(devices=tuple(Device(rank=rank, stage=stage) for rank, stage in enumerate((0, 0, 1))))
    found = analyze(trace_of([Slice(1, 0, 5, category="copy"), Slice(2, 5, 9)], run))
    assert [stage.devices for stage in found.stages] == [(1, 0), (2,)]
