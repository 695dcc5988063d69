"""When a request was open, told from requests or from quiet devices."""

from __future__ import annotations

import pandas as pd

from bubblescope.analyzers.activity import activities
from bubblescope.analyzers.bursts import bursts
from bubblescope.trace import frames
from bubblescope.trace.frames import REQUESTS
from bubblescope.trace.model import Trace
from tests.analyzers.handmade import Slice, recv, trace_of

GAP = 100


def found(trace: Trace, marks: list[tuple[int, str]]) -> list[tuple[int, int]]:
    table = bursts(trace, activities(trace), 10_000, GAP, pd.DataFrame(marks, columns=["at_ns", "phase"]))
    return [tuple(row) for row in table[["begin_ns", "end_ns"]].to_numpy().tolist()]


def test_a_quiet_time_longer_than_the_gap_parts_two_bursts() -> None:
    trace = trace_of([Slice(0, 0, 50), Slice(1, 150, 200), Slice(0, 301, 400)])
    assert found(trace, []) == [(0, 200), (301, 400)]


def test_a_pending_operation_is_not_quiet() -> None:
    trace = trace_of([Slice(0, 0, 50), recv(1, 0, 60, 500), Slice(0, 490, 600)])
    assert found(trace, []) == [(0, 600)]


def test_a_quiet_time_before_a_decode_step_is_not_idle() -> None:
    trace = trace_of([Slice(0, 0, 50), Slice(0, 1000, 1050), Slice(0, 5000, 5050)])
    assert found(trace, [(0, "prefill"), (1000, "decode"), (5000, "prefill")]) == [(0, 1050), (5000, 5050)]


def test_work_that_begins_no_batch_belongs_to_the_burst_before() -> None:
    # GIVEN a late clean-up at 1000 after which no batch begins before the next quiet time
    trace = trace_of([Slice(0, 0, 50), Slice(0, 1000, 1050), Slice(0, 5000, 5050)])
    assert found(trace, [(0, "prefill"), (5000, "prefill")]) == [(0, 1050), (5000, 5050)]


def test_requests_say_it_where_they_are_recorded() -> None:
    # GIVEN two overlapping requests and one whose end was not recorded
    base = trace_of([Slice(0, 0, 50)])
    table = {
        "request": ["a", "b", "c"], "arrival_ns": [5, 20, 500],
        "first_token_ns": pd.array([10, 30, None], dtype="Int64"),
        "end_ns": pd.array([40, None, None], dtype="Int64"),
        "prompt_tokens": [1, 1, 1], "output_tokens": [1, 1, 1], "warmup": [False, False, True],
    }  # fmt: skip
    trace = Trace(base.run, base.tracks, base.slices, requests=frames.table(REQUESTS, table))
    assert found(trace, []) == [(5, 40), (500, 10_000)]
