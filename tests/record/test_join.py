"""Several traces as one: hosts on one clock, runs recorded one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from bubblescope.errors import NotATraceError
from bubblescope.record.assemble import assemble
from bubblescope.record.join import join
from bubblescope.trace.frames import TIME_LIMIT
from bubblescope.trace.model import Clock, Lost, Trace
from tests.record.processes import declared, process, span


def stage_trace(
    number: int, spans: Sequence[dict[str, int]], clock: str = "boot", **of_process: Any
) -> Trace:
    return assemble([process([declared(number, rank=number)], spans, clock=clock, **of_process)])


def two_hosts() -> list[Trace]:
    """The second host's clock is ahead by 1000, give or take 10."""
    return [
        stage_trace(0, [span("send", 100, 110, peer=1), span("recv", 110, 150, peer=1)], clock="a"),
        stage_trace(
            1,
            [span("recv", 1050, 1110, peer=0), span("send", 1140, 1150, peer=0)],
            clock="b",
            texts=["r", "x"],
            requests=[{"request": 0, "event": 1, "time_ns": 1040}],
            instants=[{"name": 1, "time_ns": 1041, "stage": 0}],
            samples=[{"name": 1, "time_ns": 1042, "stage": 0}],
            facts={"window_ns": (1, "[1045, 1150]")},
        ),
    ]


def test_a_second_host_is_brought_onto_the_first_ones_clock_in_every_table() -> None:
    # Ahead by at most 1110 - 100 = 1010 and at least 1140 - 150 = 990.
    trace = join(two_hosts())
    columns = ["kind", "stage", "device", "begin_ns", "end_ns"]
    assert trace.spans[columns].values.tolist() == [
        ["recv", 1, 1, 50, 110], ["send", 0, 0, 100, 110], ["recv", 0, 0, 110, 150], ["send", 1, 1, 140, 150],
    ]  # fmt: skip
    assert trace.requests["arrival_ns"].tolist() == [40]
    assert trace.slices["begin_ns"].tolist() == [41]
    assert trace.counters[["device", "time_ns"]].values.tolist() == [[1, 42]]
    assert trace.run.window_ns == (45, 150)
    assert trace.run.clock.aligned and trace.run.clock.uncertainty_ns == 10
    assert [device.stage for device in trace.run.devices] == [0, 1]


def test_where_alignment_is_refused_the_trace_says_so_and_the_wall_clock_places_the_hosts() -> None:
    first, second = (
        stage_trace(0, [span("send", 100, 110, peer=1)], clock="a"),
        stage_trace(1, [span("recv", 1050, 1110, peer=0)], clock="b"),
    )
    # GIVEN wall clocks by which the second host's monotonic clock is ahead by 300
    second.run.facts["clock"]["wall_offset_ns"] -= 300  # type: ignore[index]
    trace = join([first, second])
    assert not trace.run.clock.aligned and trace.run.clock.uncertainty_ns is None
    assert "only in one direction" in trace.run.clock.how
    assert trace.spans["begin_ns"].tolist() == [100, 750]


@pytest.mark.parametrize("offset", [1 << 62, -(1 << 70), 10**400, 1.5, True, "soon", None])
def test_a_wall_clock_that_makes_no_sense_places_nothing(offset: object) -> None:
    first, second = (
        stage_trace(0, [span("send", 100, 110)]),
        stage_trace(1, [span("recv", 50, 60)], clock="b"),
    )
    first.run.facts["clock"]["wall_offset_ns"] = offset  # type: ignore[index]
    second.run.facts["clock"]["wall_offset_ns"] = 7  # type: ignore[index]
    assert join([first, second]).spans["begin_ns"].tolist() == [57, 100]


def test_recordings_that_are_decades_apart_are_refused() -> None:
    late = TIME_LIMIT - 5
    first, second = (
        stage_trace(0, [span("send", 100, 110)]),
        stage_trace(1, [span("recv", 50, late)], clock="b"),
    )
    second.run.facts["clock"]["wall_offset_ns"] += 10  # type: ignore[index]
    with pytest.raises(
        NotATraceError, match=r"^these recordings are not of one time \(a time further than 73"
    ):
        join([first, second])


def test_a_second_recording_on_the_same_host_adds_rows_and_no_device() -> None:
    first = stage_trace(
        0, [span("forward", 10, 20)], texts=["a"], requests=[{"request": 0, "event": 1, "time_ns": 5}]
    )
    second = stage_trace(
        0, [span("forward", 30, 40)], texts=["b"], requests=[{"request": 0, "event": 1, "time_ns": 25}]
    )
    trace = join([first, second])
    assert len(trace.run.devices) == 1
    assert trace.spans["begin_ns"].tolist() == [10, 30]
    assert trace.requests["request"].tolist() == ["a", "b"]
    assert trace.run.clock == Clock(True, 0, "one host")


def test_equal_looking_devices_of_two_hosts_stay_two() -> None:
    hosts = two_hosts()
    hosts[1] = stage_trace(0, [span("forward", 10, 20)], clock="b")
    assert len(join(hosts).run.devices) == 2


def test_tracks_and_their_slices_stay_together() -> None:
    instants = {"texts": ["x"], "instants": [{"name": 0, "time_ns": 5, "stage": 0}]}
    trace = join([stage_trace(0, [], **instants), stage_trace(1, [], **instants)])
    assert trace.tracks.loc[trace.slices["track"], "device"].tolist() == [0, 1]


def test_facts_of_a_process_without_events_are_kept() -> None:
    # GIVEN a launcher on a host of its own, which wrote only facts
    launcher = assemble([process(facts={"command": (1, '["serve"]'), "chunk": (1, "7")}, clock="c")])
    trace = join([launcher, stage_trace(0, [span("forward", 10, 20)])])
    assert (trace.run.command, trace.run.facts["chunk"]) == (("serve",), 7)
    assert trace.run.clock.aligned
    assert trace.run.facts["clock"]["id"] == "boot"


def test_what_the_recordings_contradict_each_other_in_is_left_out_and_said() -> None:
    first = stage_trace(
        0, [span("forward", 10, 20)], facts={"partition": (1, "[10, 2]"), "engine": (1, '"x"')}
    )
    second = stage_trace(
        0, [span("forward", 30, 40)], facts={"partition": (1, "[6, 6]"), "engine": (1, '"x"')}
    )
    run = join([first, second]).run
    assert (run.partition, run.engine) == (None, "x")
    assert run.lost == (Lost("partition", "the joined recordings contradict each other"),)


def test_one_trace_is_itself() -> None:
    trace = stage_trace(0, [span("forward", 10, 20)])
    joined = join([trace])
    assert joined.run == trace.run
    assert joined.spans.equals(trace.spans)
