"""The recording for another viewer: with the states, and still the same recording."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from bubblescope.analyzers.analysis import analyze
from bubblescope.report.perfetto import LANE, with_states
from bubblescope.trace.read import read_trace
from bubblescope.trace.write import write_trace
from tests.analyzers.handmade import Slice, recv, send, trace_of


def test_each_device_gets_a_lane_that_shows_its_states() -> None:
    # GIVEN stage 1 waiting from 2 to 10 for stage 0
    analysis = analyze(
        trace_of([Slice(1, 0, 2), Slice(0, 0, 10), send(0, 1, 10, 12), recv(1, 0, 2, 12), Slice(1, 12, 20)])
    )
    trace = with_states(analysis)
    lanes = trace.tracks[trace.tracks["lane"] == LANE]
    assert lanes["device"].tolist() == [0, 1]
    shown = trace.slices[trace.slices["track"] == lanes.index[1]]
    assert shown[["name", "begin_ns", "end_ns"]].astype(object).to_numpy().tolist() == [
        ["compute", 0, 2], ["starved", 2, 10], ["transfer", 10, 12], ["compute", 12, 20],
    ]  # fmt: skip


def test_what_was_exported_reads_back_with_the_same_verdict(tmp_path: Path) -> None:
    before = analyze(trace_of([Slice(0, 0, 10), send(0, 1, 10, 12), recv(1, 0, 2, 12), Slice(1, 12, 20)]))
    write_trace(with_states(before), tmp_path / "t.json.gz")
    after = analyze(read_trace(tmp_path / "t.json.gz"))
    pd.testing.assert_frame_equal(after.timeline, before.timeline)
    pd.testing.assert_frame_equal(after.blame, before.blame)
