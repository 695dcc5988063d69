"""The simulated pipelines run as streams and NCCL do."""

from __future__ import annotations

import pytest

from tests.pipelines.engine import Engine, prefill
from tests.pipelines.execution import Execution, play
from tests.pipelines.program import Program, Rank

BIG = 8_000_000


def times(execution: Execution, rank: int, operation: str) -> list[tuple[int, int]]:
    """Begin and end of a rank's sends, receives or (operation "") computing."""
    return [
        (work.begin, work.end)
        for work in execution.works
        if work.rank == rank and work.launch.operation == operation
    ]


def test_a_rendezvous_moves_from_the_later_begin_and_the_send_runs_until_then() -> None:
    # Stage 0 sends at 10, 20, 30; stage 1 receives whenever its computing (10) is done.
    execution = play(Engine().program(prefill([10] * 3, [10] * 3)))
    assert times(execution, 0, "") == [(0, 10), (10, 20), (20, 30)]
    assert times(execution, 0, "send") == [(10, 12), (20, 24), (30, 36)]
    assert times(execution, 1, "recv") == [(0, 12), (22, 24), (34, 36)]
    assert times(execution, 1, "") == [(12, 22), (24, 34), (36, 46)]


def test_an_eager_send_ends_before_its_receive_begins() -> None:
    execution = play(Engine(link=4, buffers=2).program(prefill([10] * 3, [30] * 3)))
    assert times(execution, 0, "send") == [(10, 14), (20, 24), (30, 34)]
    assert times(execution, 1, "recv") == [(0, 14), (44, 48), (78, 82)]


def test_a_send_without_room_waits_until_a_receive_has_freed_some() -> None:
    # The second message lies in the buffer until receive 1 has drained it at 48.
    execution = play(Engine(link=4, buffers=1).program(prefill([10] * 3, [30] * 3)))
    assert times(execution, 0, "send") == [(10, 14), (20, 24), (30, 52)]


def test_a_receive_may_end_later_than_its_send() -> None:
    execution = play(Engine(lag=3).program(prefill([10], [10])))
    assert times(execution, 0, "send") == [(10, 12)]
    assert times(execution, 1, "recv") == [(0, 15)]


def test_a_collective_moves_from_the_last_begin() -> None:
    execution = play(Engine(skew=(0, 5), allreduce=3).program(prefill([10], [10])))
    assert times(execution, 0, "allreduce") == [(10, 18)]
    assert times(execution, 1, "allreduce") == [(15, 18)]


def test_a_host_launches_in_order_and_waits_when_told() -> None:
    rank = Rank(0, 0)
    rank.spend(3)
    first = rank.compute(10)
    rank.wait(first)
    rank.spend(4)
    rank.copy(5)
    rank.until(30)
    rank.compute(1)
    execution = play(Program((rank,), {}))
    assert [(work.begin, work.end) for work in execution.works] == [(3, 13), (17, 22), (30, 31)]


def test_what_can_never_end_is_refused() -> None:
    left, right = Rank(0, 0), Rank(1, 1)
    left.send(1, BIG, 2, [left.receive(1, BIG, 2)])
    right.send(0, BIG, 2, [right.receive(0, BIG, 2)])
    with pytest.raises(AssertionError, match="deadlock"):
        play(Program((left, right), {}))
