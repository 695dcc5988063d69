"""A trace holds together: every row refers to something that is there."""

from __future__ import annotations

import pytest

from bubblescope.trace import frames
from bubblescope.trace.frames import COUNTERS, TRACKS, SchemaError
from bubblescope.trace.model import Device, Lost, Run, Trace, card_uuids

TRACK = {"device": [0], "process": ["1"], "lane": ["7"], "kind": ["stream"]}


def test_a_trace_is_empty_unless_told_otherwise() -> None:
    trace = Trace(Run())
    assert [
        len(frame) for frame in (trace.tracks, trace.slices, trace.spans, trace.requests, trace.counters)
    ] == [0] * 5


def test_a_device_that_is_not_there_is_refused() -> None:
    counters = frames.table(COUNTERS, {"device": [1], "name": ["x"], "time_ns": [0], "value": [0.0]})
    with pytest.raises(SchemaError, match=r"counters\.device"):
        Trace(Run(devices=(Device(),)), counters=counters)
    with pytest.raises(SchemaError, match=r"tracks\.device"):
        Trace(Run(), tracks=frames.table(TRACKS, TRACK))


def test_what_is_lost_is_added_to_what_was() -> None:
    trace = Trace(Run(lost=(Lost("a", "b"),))).with_lost(Lost("c", "d", 2))
    assert [lost.what for lost in trace.run.lost] == ["a", "c"]


def test_times_that_could_overflow_are_refused() -> None:
    with pytest.raises(SchemaError, match="73 years"):
        Trace(Run(window_ns=(0, 2**70)))
    with pytest.raises(SchemaError, match="73 years"):
        frames.table(COUNTERS, {"device": [0], "name": ["x"], "time_ns": [2**62], "value": [0.0]})


def test_a_uuid_is_told_by_stage_and_rank() -> None:
    devices = [Device(stage=0, rank=0), Device(stage=1)]
    told = {"uuid:0:0": "a", "uuid:1:-1": "b", "uuid:1:1": "c"}
    assert card_uuids(told, devices) == {0: "a", 1: "b"}
