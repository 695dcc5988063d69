"""Whom a wait is blamed on when the awaited stage was at work, and what needs no following."""

from __future__ import annotations

from tests.pipelines.agreement import examined
from tests.pipelines.engine import ACTIVATION_BYTES, Engine, Step, decode, prefill
from tests.pipelines.execution import play
from tests.pipelines.program import Program, Rank, Ticket


def test_starved_by_a_stage_that_computes() -> None:
    # GIVEN 30 ns on stage 0, 10 on stage 1: between chunks stage 1 waits 30 - 10 - 2 ns
    right = examined(play(Engine().program(prefill([30] * 3, [10] * 3))))
    assert right.blame == {(1, 0, "compute"): 2 * 18}


def test_starved_by_a_link() -> None:
    # GIVEN even stages, 20 ns from 0 to 1 and 2 from 1 to 2
    right = examined(play(Engine(link=(20, 2)).program(prefill([10] * 3, [10] * 3, [10] * 3))))
    # THEN stage 2, done with its first chunk at 52, waits while the second is on the link until 60, and
    # while stage 1 computes it until 70; and so again from 82. Stage 0 waits for stage 1 to receive.
    assert right.blame == {
        (2, 1, "transfer"): 2 * 8,
        (2, 1, "compute"): 2 * 10,
        (0, 1, "compute"): 2 * 10,
    }


def test_starved_by_a_host() -> None:
    # GIVEN the host of stage 0 works 15 ns before each chunk
    right = examined(play(Engine(host=(15, 0), lockstep=True).program(prefill([10] * 3, [10] * 3))))
    # THEN stage 0 blames itself for 13 ns per chunk (2 more pass beside its send); stage 1 waits from 37
    # to 50 and from 62 to 75, 3 ns each for that host and 10 for the computing
    assert right.blame == {(0, 0, "host"): 26, (1, 0, "host"): 2 * 3, (1, 0, "compute"): 2 * 10}


def test_blocked_by_a_stage_that_computes() -> None:
    # GIVEN 10 ns on stage 0, 30 on the last stage
    right = examined(play(Engine().program(prefill([10] * 3, [30] * 3))))
    # THEN stage 0 waits in its sends, from 30 to 42 and from 44 to 74
    assert right.blame == {(0, 1, "compute"): 12 + 30}


def test_blocked_by_a_host() -> None:
    # GIVEN the host of stage 1 works 15 ns before each chunk and launches nothing ahead
    right = examined(play(Engine(host=(0, 15), lockstep=True).program(prefill([10] * 3, [10] * 3))))
    # THEN stage 0 waits from 30 to 42 for that host, from 44 on 10 ns for the computing and 15 for the host
    assert right.blame == {(1, 1, "host"): 2 * 15, (0, 1, "host"): 12 + 15, (0, 1, "compute"): 10}


def test_blocked_by_a_stage_that_takes_the_message_before() -> None:
    # GIVEN a buffer for one message: the third send waits from 30 until receive 1 (44 to 48) frees it
    right = examined(play(Engine(link=4, buffers=1).program(prefill([10] * 3, [30] * 3))))
    assert right.blame == {(0, 1, "compute"): 14, (0, 1, "transfer"): 4}


def test_blocked_by_a_stage_that_has_not_begun() -> None:
    # GIVEN stage 1 takes its first message (100 to 104) after the third send is pending since 30
    right = examined(play(Engine(link=4, buffers=2, host=(0, 100)).program(prefill([10] * 3, [30] * 3))))
    # THEN its fill is no cause that is known
    assert right.blame == {
        (0, 1, "unknown"): 70,
        (0, 1, "transfer"): 4,
        (1, 1, "host"): (200 - 134) + (300 - 234),
    }


def test_waiting_for_tokens_is_not_followed() -> None:
    # GIVEN decode steps over two stages, stage 1 computing while stage 0 waits for its tokens
    steps = [Step((10, 10)), Step((10, 10), samples=True), decode(4, 6), decode(4, 6)]
    for tokens in ("broadcast", "return"):
        right = examined(play(Engine(tokens=tokens).program(steps)), phases=True)
        # THEN the cause is the token; stage 1 waits 4 ns per step for what stage 0 computes
        assert right.blame == {(0, 1, "token"): 12 + 6, (1, 0, "compute"): 2 * 4}


def test_activations_that_flow_back_are_no_tokens() -> None:
    # GIVEN stage 0 gets back from stage 1 as much as it sent (a loop over the stages)
    stage_0, stage_1 = Rank(0, 0), Rank(1, 1)
    sent = stage_0.compute(10)
    stage_0.send(1, ACTIVATION_BYTES, 2, [sent])
    stage_0.compute(10, [stage_0.receive(1, ACTIVATION_BYTES, 2, [sent])])
    computed = stage_1.compute(30, [stage_1.receive(0, ACTIVATION_BYTES, 2)])
    stage_1.send(0, ACTIVATION_BYTES, 2, [computed])
    right = examined(play(Program((stage_0, stage_1), {"pp": (0, 1)})))
    # THEN it waits for the computing of stage 1, from 12 to 42
    assert right.blame == {(0, 1, "compute"): 30}


def test_waiting_for_a_peer_of_the_same_stage_is_skew() -> None:
    # GIVEN stage 0 of two ranks, of which now one, now the other computes longer
    first, second, behind, beside = Rank(0, 0), Rank(1, 0), Rank(2, 1), Rank(3, 1)
    for rank, chunks in ((first, (10, 40)), (second, (16, 20))):
        reduced: list[Ticket] = []
        for ns in chunks:
            reduced = [rank.collective("allreduce", "tp0", 2, ACTIVATION_BYTES, [rank.compute(ns, reduced)])]
        rank.send(rank.number + 2, ACTIVATION_BYTES, 2, reduced)
    for rank, ns in ((behind, 20), (beside, 21)):
        rank.compute(ns, [rank.receive(rank.number - 2, ACTIVATION_BYTES, 2)])
    groups = {"pp": (0, 1, 2, 3), "tp0": (0, 1), "tp1": (2, 3)}
    right = examined(play(Program((first, second, behind, beside), groups)))
    # THEN rank 0 (50 ns of compute) stands for stage 0 and waits 6 ns for rank 1
    assert right.leaders == (0, 3)
    assert right.blame == {(0, 0, "tp_skew"): 6}
    assert right.totals(1)["starved"] == 40 - 20


def test_a_late_root_and_a_late_member_of_a_broadcast() -> None:
    # GIVEN stage 1 has its token at 22, but stage 0 comes to the broadcast at 40 only, after a second chunk
    stage_0, stage_1 = Rank(0, 0), Rank(1, 1)
    chunk = stage_0.compute(10)
    stage_0.send(1, ACTIVATION_BYTES, 2, [chunk])
    longer = stage_0.compute(30, [chunk])
    token = stage_0.collective("broadcast", "tokens", 2, 8, [longer])
    stage_0.send(1, ACTIVATION_BYTES, 2, [stage_0.compute(5, [token])])
    computed = stage_1.compute(10, [stage_1.receive(0, ACTIVATION_BYTES, 2)])
    given = stage_1.collective("broadcast", "tokens", 2, 8, [computed])
    stage_1.compute(5, [stage_1.receive(0, ACTIVATION_BYTES, 2, [given])])
    right = examined(play(Program((stage_0, stage_1), {"pp": (0, 1), "tokens": (0, 1)})))
    # THEN stage 1 waits in the broadcast for the computing of stage 0 (22 to 40), then for its next chunk
    assert right.blame == {(1, 0, "compute"): 18 + 5}
