"""The same execution, recorded in other ways: rank by rank, too late, without a GPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bubblescope.analyzers.analysis import analyze
from bubblescope.analyzers.results import Options
from bubblescope.trace.read import read_trace
from tests.analyzers.handmade import Slice, trace_of
from tests.pipelines.agreement import assert_agrees, examined
from tests.pipelines.engine import Engine, Step, decode, prefill
from tests.pipelines.execution import play
from tests.pipelines.recording import (
    ORIGIN_NS,
    recorded,
    recorded_as_spans,
    recorded_late,
    write_kineto,
)
from tests.pipelines.truth import truth

#: torch counts from whole multiples of this; two ranks need not count from the same one.
BASE_STEP_NS = 7_889_238_000_000_000


def test_ranks_that_count_from_different_base_times(tmp_path: Path) -> None:
    # GIVEN three ranks' own files, each with times since another base
    execution = play(Engine(buffers=1, lag=1).program(prefill([30] * 4, [10] * 4, [20] * 4)))
    write_kineto(execution, tmp_path, [(227 - rank) * BASE_STEP_NS for rank in (0, 1, 2)])
    # WHEN the folder is read and analysed
    trace = read_trace(tmp_path)
    # THEN every nanosecond is what it is on one clock
    assert [device.rank for device in trace.run.devices] == [0, 1, 2]
    right = truth(execution, 1000)
    assert_agrees(analyze(trace, Options(idle_gap_ns=1000)), right)
    assert right.totals(1)["starved"] > 0


def test_decode_from_the_files_of_ranks(tmp_path: Path) -> None:
    # GIVEN token broadcasts and a copy before each computing
    steps = [Step((30, 10)), Step((30, 10), samples=True), decode(4, 6), decode(4, 6)]
    execution = play(Engine(copy=3).program(steps))
    write_kineto(execution, tmp_path, [BASE_STEP_NS, 3 * BASE_STEP_NS])
    assert_agrees(analyze(read_trace(tmp_path), Options(idle_gap_ns=1000)), truth(execution, 1000))


def test_a_rank_recorded_late_is_paired_from_the_end() -> None:
    # GIVEN the recording of stage 1 lacks its first two receives and its first computing
    whole = play(Engine().program(prefill([30] * 5, [10] * 5)))
    late = recorded_late(whole, 1, 60)
    receives = [work for work in late.works if work.launch.operation == "recv"]
    assert len(receives) == 3
    # WHEN the time since its first recorded computing is looked at
    begin = min(work.begin for work in late.works if work.rank == 1 and work.computes)
    # THEN each nanosecond is what it is in the whole recording
    right = truth(late, 1000, window=(begin, 162))
    assert right.states == truth(whole, 1000, window=(begin, 162)).states
    flag = (begin + ORIGIN_NS, 162 + ORIGIN_NS)
    analysis = analyze(recorded(late), Options(window_ns=flag, idle_gap_ns=1000))
    assert_agrees(analysis, right)
    assert right.totals(1) == {"compute": 4 * 10, "starved": 3 * 18, "transfer": 3 * 2}
    # and it is said that sends and receives are not equally many
    assert len(analysis.lost) > len(analyze(recorded(whole)).lost)


def test_a_rank_recorded_late_still_sums_to_the_window() -> None:
    late = recorded_late(play(Engine().program(prefill([30] * 5, [10] * 5))), 1, 60)
    analysis = analyze(recorded(late), Options(idle_gap_ns=1000))
    assert analysis.window_ns == (ORIGIN_NS, 162 + ORIGIN_NS)
    for device in analysis.devices:
        assert sum(device.states_ns.values()) == 162
    assert analysis.devices[0].states_ns["compute"] == 150


def test_a_window_marked_in_the_recording_is_looked_at() -> None:
    execution = play(Engine().program(prefill([30] * 3, [10] * 3)))
    analysis = analyze(recorded(execution, window=(35, 80)), Options(idle_gap_ns=1000))
    assert_agrees(analysis, truth(execution, 1000, window=(35, 80)))
    assert analysis.window_source == "recording"


def test_an_engine_without_device_work_is_judged_by_its_spans() -> None:
    # GIVEN stages on CPUs, which write down when they compute, send and receive
    execution = play(Engine(buffers=1).program(prefill([30] * 3, [10] * 3, [40] * 3)))
    # THEN every nanosecond is what it is from kernels
    assert_agrees(analyze(recorded_as_spans(execution), Options(idle_gap_ns=1000)), truth(execution, 1000))


def test_the_order_of_rows_does_not_matter() -> None:
    execution = play(Engine(buffers=1, tensors=2).program(prefill([30] * 3, [10] * 3)))
    trace = recorded(execution)
    backwards = replace(trace, slices=trace.slices.iloc[::-1])
    assert_agrees(analyze(backwards, Options(idle_gap_ns=1000)), examined(execution))


@pytest.mark.parametrize("name", ["llama_h200x2_17_19", "llama_h200x2_28_8"])
def test_kernels_beside_spans_that_alone_tell_of_messages(name: str) -> None:
    # GIVEN an engine that copies from device to device, so that its messages are no kernels
    recording = Path(__file__).parents[2] / "sample_traces" / "recorded" / f"{name}.json.gz"
    spans = read_trace(recording)
    # WHEN the kernels of its forwards are recorded, too
    forwards = spans.spans.loc[spans.spans["kind"] == "forward", ["device", "begin_ns", "end_ns"]]
    kernels = trace_of([Slice(*row) for row in forwards.to_numpy().tolist()])
    both = analyze(replace(spans, tracks=kernels.tracks, slices=kernels.slices))
    # THEN no device waited for anything else than before
    alone = analyze(spans)
    assert [stage.states_ns for stage in both.stages] == [stage.states_ns for stage in alone.stages]
    assert both.blame.equals(alone.blame)
    assert "communication" not in {lost.what for lost in both.lost}
