"""Which send belongs to which receive, and what is said where that cannot be known."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from bubblescope.analyzers.operations import operations
from bubblescope.trace.model import Device, Run
from tests.analyzers.handmade import Slice, collective, recv, send, trace_of

MS = 1_000_000


def pairs(frame: pd.DataFrame) -> list[tuple[int, int]]:
    """Begin of each paired send with the begin of its receive, in milliseconds."""
    sends = frame[(frame["kind"] == "send") & (frame["pair"] >= 0)]
    begins = frame["begin_ns"]
    return [(int(begins[row] // MS), int(begins[other] // MS)) for row, other in sends["pair"].items()]


def test_the_kth_send_belongs_to_the_kth_receive() -> None:
    found = operations(
        trace_of(
            [
                send(0, 1, 10 * MS, 11 * MS), recv(1, 0, 0, 11 * MS),
                send(0, 1, 20 * MS, 21 * MS), recv(1, 0, 12 * MS, 21 * MS),
            ]
        )
    )  # fmt: skip
    assert pairs(found.frame) == [(10, 0), (20, 12)]
    assert found.lost == ()


def test_groups_are_paired_apart() -> None:
    # GIVEN the receives of two groups in the other order than the sends
    found = operations(
        trace_of(
            [
                send(0, 1, 10 * MS, 11 * MS, group="a"), send(0, 1, 12 * MS, 13 * MS, group="b"),
                recv(1, 0, 1 * MS, 13 * MS, group="b"), recv(1, 0, 2 * MS, 11 * MS, group="a"),
            ]
        )
    )  # fmt: skip
    assert pairs(found.frame) == [(10, 2), (12, 1)]


def test_microbatches_are_paired_apart() -> None:
    # GIVEN the receives of two microbatches in the other order than the sends
    sends = [replace(send(0, 1, at * MS, (at + 1) * MS), microbatch=at) for at in (10, 12)]
    receives = [replace(recv(1, 0, at * MS, (25 - at) * MS), microbatch=at) for at in (10, 12)]
    receives[0], receives[1] = replace(receives[0], microbatch=12), replace(receives[1], microbatch=10)
    assert pairs(operations(trace_of([*sends, *receives])).frame) == [(10, 12), (12, 10)]


@pytest.mark.parametrize("told", ["send", "recv"])
def test_microbatches_that_one_side_alone_tells_do_not_part_it_from_the_other(told: str) -> None:
    kernels = [
        send(0, 1, 10 * MS, 11 * MS), recv(1, 0, 0, 11 * MS),
        send(0, 1, 20 * MS, 21 * MS), recv(1, 0, 12 * MS, 21 * MS),
    ]  # fmt: skip
    named = [
        replace(each, microbatch=at if each.operation == told else -1) for at, each in enumerate(kernels)
    ]
    assert pairs(operations(trace_of(named)).frame) == [(10, 0), (20, 12)]


def test_microbatches_that_the_two_sides_name_otherwise_are_said() -> None:
    sends = [replace(send(0, 1, at * MS, (at + 1) * MS), microbatch=at) for at in (10, 20)]
    receives = [replace(recv(1, 0, at * MS, (at + 1) * MS), microbatch=at + 1) for at in (10, 20)]
    found = operations(trace_of([*sends, *receives]))
    assert pairs(found.frame) == []
    (lost,) = found.lost
    assert (lost.count, lost.why.split(":")[0]) == (4, "device 0 to 1")


def test_a_recording_that_began_late_is_paired_from_the_end() -> None:
    # GIVEN three sends and two receives: rank 1 was recorded only after the first
    sends = [send(0, 1, at * MS, (at + 1) * MS) for at in (10, 20, 30)]
    receives = [recv(1, 0, at * MS, (at + 9) * MS) for at in (12, 22)]
    found = operations(trace_of([*sends, *receives]))
    assert pairs(found.frame) == [(20, 12), (30, 22)]
    (lost,) = found.lost
    assert lost.count == 1 and "3 sends and 2 receives, the last 2 paired" in lost.why


def test_a_recording_that_ended_early_is_paired_from_the_begin() -> None:
    # GIVEN that pairing from the end would let data arrive before it was sent
    sends = [send(0, 1, at * MS, (at + 1) * MS) for at in (10, 20, 30)]
    receives = [recv(1, 0, at * MS, (at + 9) * MS) for at in (2, 12)]
    found = operations(trace_of([*sends, *receives]))
    assert pairs(found.frame) == [(10, 2), (20, 12)]
    assert "the first 2 paired" in found.lost[0].why


def test_sizes_decide_where_the_order_fits_only_one_way() -> None:
    sends = [send(0, 1, at * MS, (at + 1) * MS, size) for at, size in ((10, 500), (20, 500), (30, 7))]
    receives = [recv(1, 0, 40 * MS, 41 * MS, 500), recv(1, 0, 42 * MS, 43 * MS, 7)]
    found = operations(trace_of([*sends, *receives]))
    assert pairs(found.frame) == [(20, 40), (30, 42)]


def test_impossible_pairs_are_not_made() -> None:
    # GIVEN a receive that ends long before its only send begins
    found = operations(trace_of([send(0, 1, 50 * MS, 51 * MS), recv(1, 0, 1 * MS, 2 * MS)]))
    assert pairs(found.frame) == []
    assert found.lost[0].what == "operations not paired"


def test_a_peer_that_was_not_recorded_is_said() -> None:
    run = Run(devices=(Device(rank=0), Device(rank=1)), world_size=3)
    found = operations(trace_of([send(0, 2, 0, 5), send(0, 2, 7, 9), Slice(1, 0, 3)], run))
    assert pairs(found.frame) == []
    (lost,) = found.lost
    assert (lost.what, lost.count) == ("sends and receives whose peer is unknown", 2)


def test_with_two_devices_an_unnamed_peer_is_the_other_one() -> None:
    found = operations(trace_of([send(0, -1, 10 * MS, 12 * MS), recv(1, -1, 0, 12 * MS)]))
    assert pairs(found.frame) == [(10, 0)]


def test_collectives_meet_by_order_within_their_group() -> None:
    frame = operations(
        trace_of(
            [
                collective(0, 0, 10), collective(1, 5, 10),
                collective(0, 20, 30), collective(1, 21, 30),
                collective(0, 40, 41, group="other"),
            ]
        )
    ).frame  # fmt: skip
    assert frame["pair"].tolist() == [0, 0, 2, 2, -1]


def test_collectives_are_counted_from_the_end() -> None:
    # GIVEN that rank 1 was recorded from the second all-reduce on
    found = operations(trace_of([collective(0, 0, 10), collective(0, 20, 30), collective(1, 21, 30)]))
    assert found.frame["pair"].tolist() == [-1, 1, 1]
    assert found.lost[0].count == 1


def test_ranks_that_ran_different_collectives_are_not_paired() -> None:
    found = operations(trace_of([collective(0, 0, 10, "allreduce"), collective(1, 0, 10, "broadcast")]))
    assert found.frame["pair"].tolist() == [-1, -1]
    assert found.lost[0].what == "collectives not paired"
