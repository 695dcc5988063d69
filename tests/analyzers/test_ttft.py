"""The parts of a request's time to first token, added up by hand."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from bubblescope.analyzers.analysis import analyze
from bubblescope.analyzers.results import Options
from bubblescope.trace import frames
from bubblescope.trace.frames import REQUESTS, SPANS, UNKNOWN
from bubblescope.trace.model import Device, Run, Trace
from tests.analyzers.handmade import Slice, trace_of

Row = tuple[int, str, int, int, int, int]


def recording(rows: Sequence[Row], requests: Sequence[tuple[int, int | None, bool]]) -> Trace:
    """Spans (stage, kind, microbatch, prefix, begin, end) and requests (arrival, first token, warm-up)."""
    spans: dict[str, list[Any]] = {name: [UNKNOWN] * len(rows) for name in SPANS.columns}
    for name, at in (
        ("stage", 0),
        ("kind", 1),
        ("microbatch", 2),
        ("prefix", 3),
        ("begin_ns", 4),
        ("end_ns", 5),
    ):
        spans[name] = [row[at] for row in rows]
    spans |= {"device": spans["stage"], "step": spans["microbatch"], "phase": ["prefill"] * len(rows)}
    spans |= {"tokens": [100] * len(rows), "clock": ["host"] * len(rows)}
    table = {
        "request": [f"r{number}" for number in range(len(requests))],
        "arrival_ns": [arrival for arrival, _, _ in requests],
        "first_token_ns": pd.array([first for _, first, _ in requests], dtype="Int64"),
        "end_ns": pd.array([first for _, first, _ in requests], dtype="Int64"),
        "prompt_tokens": [100] * len(requests),
        "output_tokens": [1] * len(requests),
        "warmup": [warm for _, _, warm in requests],
    }
    run = Run(devices=(Device(rank=0, stage=0), Device(rank=1, stage=1)), window_ns=(0, 1000))
    return Trace(run, spans=frames.table(SPANS, spans), requests=frames.table(REQUESTS, table))


def test_the_parts_sum_and_name_who_held_the_request_up() -> None:
    # GIVEN a request that arrives at 0, is scheduled until 50 (host of stage 0 idle before its first
    # work: fill), runs on stage 0 to 150, moves 10 ns, waits 5 ns for the host of stage 1, runs there
    # to 265, and whose token reaches the client at 300
    trace = recording(
        [
            (0, "forward", 0, 0, 50, 150), (0, "send", 0, 0, 150, 160),
            (1, "recv", 0, 0, 20, 160), (1, "forward", 0, 0, 165, 265),
        ],
        [(0, 300, False)],
    )  # fmt: skip
    (request,) = analyze(trace).requests
    assert request.ttft_ns == 300
    assert dict(request.breakdown_ns) == {
        "compute_stage_0": 100, "compute_stage_1": 100, "transfer": 10, "host": 0, "bubble": 50 + 5,
        "queue": 0, "outside": 35,
    }  # fmt: skip


def test_the_path_goes_through_the_slow_stage() -> None:
    # GIVEN two chunks; stage 1 takes 300 ns for each and so is never waited for by nobody but itself
    trace = recording(
        [
            (0, "forward", 0, 0, 0, 100), (1, "forward", 0, 0, 100, 400),
            (0, "forward", 1, 100, 100, 200), (1, "forward", 1, 100, 400, 700),
        ],
        [(0, 700, False)],
    )  # fmt: skip
    (request,) = analyze(trace).requests
    assert {key: ns for key, ns in request.breakdown_ns.items() if ns} == {
        "compute_stage_0": 100, "compute_stage_1": 600,
    }  # fmt: skip


def test_work_for_requests_before_is_queueing() -> None:
    # GIVEN a second request that arrives at 10 while the first one's chunk runs to 100 and 200
    trace = recording(
        [
            (0, "forward", 0, 0, 0, 100), (1, "forward", 0, 0, 100, 200),
            (0, "forward", 1, 0, 100, 200), (1, "forward", 1, 0, 200, 300),
        ],
        [(0, 200, False), (10, 300, False)],
    )  # fmt: skip
    first, second = analyze(trace).requests
    assert {key: ns for key, ns in first.breakdown_ns.items() if ns} == {
        "compute_stage_0": 100, "compute_stage_1": 100,
    }  # fmt: skip
    assert sum(second.breakdown_ns.values()) == second.ttft_ns == 290
    assert second.breakdown_ns["queue"] == 90
    assert second.breakdown_ns["compute_stage_1"] == 100


def test_warm_ups_are_left_out_and_unanswered_requests_have_no_ttft() -> None:
    trace = recording(
        [(0, "forward", 0, 0, 0, 100), (1, "forward", 0, 0, 100, 200)],
        [(0, 200, True), (300, None, False)],
    )
    (request,) = analyze(trace).requests
    assert (request.request, request.ttft_ns, dict(request.breakdown_ns)) == ("r1", None, {})


def test_one_device_has_all_of_it() -> None:
    # GIVEN an engine on one device, whose host prepares 50 ns and pauses 20 between two chunks
    chunks = [(0, "schedule", 0, 0, 0, 50), (0, "forward", 0, 0, 50, 150), (0, "forward", 1, 100, 170, 270)]
    (request,) = analyze(recording(chunks, [(0, 300, False)])).requests
    told = {"compute_stage_0": 200, "host": 20, "bubble": 50, "outside": 30}
    assert {key: ns for key, ns in request.breakdown_ns.items() if ns} == told


def test_of_one_rank_alone_nothing_is_told() -> None:
    # GIVEN the first of two stages, whose peer was not recorded
    (request,) = analyze(
        recording([(0, "forward", 0, 0, 50, 150), (0, "send", 0, 0, 150, 160)], [(0, 300, False)])
    ).requests
    assert dict(request.breakdown_ns) == {}


def test_between_kernels_of_a_step_its_device_waits_for_its_host() -> None:
    # GIVEN a forward of 100 ns on each stage, of which kernels fill 70 and 90
    trace = recording([(0, "forward", 0, 0, 0, 100), (1, "forward", 0, 0, 100, 200)], [(0, 200, False)])
    kernels = trace_of([Slice(0, 0, 40), Slice(0, 70, 100), Slice(1, 100, 150), Slice(1, 160, 200)])
    (request,) = analyze(replace(trace, tracks=kernels.tracks, slices=kernels.slices)).requests
    told = {"compute_stage_0": 70, "compute_stage_1": 90, "host": 30 + 10}
    assert {key: ns for key, ns in request.breakdown_ns.items() if ns} == told


def test_many_requests_of_many_kernels_take_time_linear_in_them() -> None:
    # GIVEN requests one after the other, each a forward of 100 kernels with gaps
    def seconds(count: int) -> float:
        forwards = [(0, "forward", number, 0, number * 1000, number * 1000 + 1000) for number in range(count)]
        asked = [(begin, end, False) for *_, begin, end in forwards]
        kernels = trace_of([Slice(0, begin, begin + 7) for begin in range(0, count * 1000, 10)])
        trace = replace(recording(forwards, asked), tracks=kernels.tracks, slices=kernels.slices)
        trace = replace(trace, run=replace(trace.run, window_ns=(0, count * 1000)))
        begun = time.process_time()
        requests = analyze(trace).requests
        took = time.process_time() - begun
        assert requests[0].breakdown_ns["host"] == 300
        return took

    # WHEN there are four times as many, THEN it takes less than six times as long, or no time at all
    assert seconds(1600) < 0.5 + 6 * seconds(400)


def test_of_a_request_that_reaches_out_of_the_window_nothing_is_told() -> None:
    # GIVEN two requests of 100 ns each, and a window round the second
    rows = [(0, "forward", 0, 0, 0, 50), (1, "forward", 0, 0, 50, 100)]
    rows += [(stage, kind, 1, 0, 200 + begin, 200 + end) for stage, kind, _, _, begin, end in rows]
    trace = recording(rows, [(0, 100, False), (200, 300, False)])
    first, second = analyze(trace, Options(window_ns=(200, 300))).requests
    assert (first.ttft_ns, dict(first.breakdown_ns)) == (100, {})
    assert sum(second.breakdown_ns.values()) == second.ttft_ns == 100
