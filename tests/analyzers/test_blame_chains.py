"""Waits that are waited for: followed within each nanosecond to where they come from."""

from __future__ import annotations

from tests.pipelines.agreement import examined
from tests.pipelines.engine import ACTIVATION_BYTES, TOKEN_BYTES, Engine, Step, decode, prefill
from tests.pipelines.execution import Execution, play
from tests.pipelines.program import Program, Rank
from tests.pipelines.truth import Blame


def of_stage(stage: int, blame: Blame) -> Blame:
    return {key: ns for key, ns in blame.items() if key[0] == stage}


def test_starved_over_three_stages() -> None:
    # GIVEN 30 ns on stage 0, 10 on the two behind
    right = examined(play(Engine().program(prefill([30] * 3, [10] * 3, [10] * 3))))
    # THEN stage 2 waits from 54 to 72: until 60 stage 1 waits for stage 0, until 62 it receives, then it
    # computes; and so again from 84
    assert of_stage(2, right.blame) == {
        (2, 0, "compute"): 2 * 6,
        (2, 1, "transfer"): 2 * 2,
        (2, 1, "compute"): 2 * 10,
    }
    # Stage 1 itself waits from 44 to 60 and from 74 to 90.
    assert of_stage(1, right.blame) == {(1, 0, "compute"): 2 * 16}


def test_blocked_over_three_stages_by_a_slow_last_one() -> None:
    # GIVEN 30 ns on the last stage, 10 before it, and no stage computes on before its send has ended
    right = examined(play(Engine(holds=True).program(prefill([10] * 4, [10] * 4, [30] * 4))))
    # THEN stage 0 waits in its last send from 46 to 66: until 54 stage 1 waits in its own for stage 2, until
    # 56 it moves data, then it computes
    assert of_stage(0, right.blame) == {
        (0, 2, "compute"): 8,
        (0, 1, "transfer"): 2,
        (0, 1, "compute"): 10,
    }
    # Stage 1 waits from 36 to 54, 68 to 86 and 98 to 118.
    assert of_stage(1, right.blame) == {(1, 2, "compute"): 18 + 18 + 20}


def test_starved_by_a_stage_that_is_blocked() -> None:
    # GIVEN stage 1 gives each chunk to stage 2 first and to stage 3 when that has ended
    ranks = [Rank(stage, stage) for stage in range(4)]
    first, second, third, fourth = ranks
    chunk = first.compute(10)
    first.send(1, ACTIVATION_BYTES, 2, [chunk])
    computed = second.compute(10, [second.receive(0, ACTIVATION_BYTES, 2)])
    sent = second.send(2, ACTIVATION_BYTES, 2, [computed])
    second.send(3, ACTIVATION_BYTES, 2, [sent])
    third.compute(50)
    third.until(50)
    third.compute(5, [third.receive(1, ACTIVATION_BYTES, 2)])
    fourth.compute(5)
    fourth.compute(5, [fourth.receive(1, ACTIVATION_BYTES, 2)])
    right = examined(play(Program(tuple(ranks), {"pp": (0, 1, 2, 3)})))
    # THEN stage 3 waits from 5 to 52: until 12 for stage 1's fill, of which nothing is known but 2 ns on the
    # link, until 22 for its computing, until 50 for stage 2, which computes, then for the link
    assert of_stage(3, right.blame) == {
        (3, 1, "unknown"): 5,
        (3, 1, "transfer"): 2 + 2,
        (3, 1, "compute"): 10,
        (3, 2, "compute"): 28,
    }


def test_a_chain_over_six_stages_ends_at_the_one_that_computes() -> None:
    # GIVEN 100 ns on stage 0, 10 on the five behind, 2 chunks
    right = examined(play(Engine().program(prefill([100] * 2, *([10] * 2 for _ in range(5))))))
    # THEN stage k is done with its first chunk at 100 + 12·k (and but for the last sends it for 2 ns); all
    # wait for stage 0 until 200, then 2 ns for each link and 10 for each stage between
    for stage in (1, 2, 3, 4, 5):
        sending = 2 if stage < 5 else 0
        expected = {(stage, 0, "compute"): 100 - 12 * stage - sending}
        expected |= {(stage, between, "transfer"): 2 for between in range(1, stage)}
        expected |= {(stage, between, "compute"): 10 for between in range(1, stage)}
        assert of_stage(stage, right.blame) == expected


def test_a_chain_ends_at_a_wait_for_tokens() -> None:
    # GIVEN three stages, one decode step; tokens go back from 2 to 0, whose host is slow to send them
    ranks = [Rank(stage, stage) for stage in range(3)]
    first, second, third = ranks
    chunk = first.compute(10)
    first.send(1, ACTIVATION_BYTES, 2, [chunk])
    token = first.receive(2, TOKEN_BYTES, 2, [chunk], bulky=False)
    first.send(1, ACTIVATION_BYTES, 2, [first.compute(10, [token])])
    for stage, rank in ((1, second), (2, third)):
        for number in range(2):
            received = rank.receive(stage - 1, ACTIVATION_BYTES, 2)
            computed = rank.compute(10, [received])
            if stage == 1:
                rank.send(2, ACTIVATION_BYTES, 2, [computed])
            elif number == 0:
                rank.wait(computed)
                rank.spend(20)
                rank.send(0, TOKEN_BYTES, 2, bulky=False)
    right = examined(play(Program(tuple(ranks), {"pp": (0, 1, 2)})))
    # THEN stage 0 waits for the tokens from 12 to 54
    assert of_stage(0, right.blame) == {(0, 2, "token"): 42}
    # and stage 1, from 24 to 66, for the same until 54 (2 ns under its send), for the tokens' way to stage 0
    # and for what stage 0 computes
    assert of_stage(1, right.blame) == {
        (1, 2, "token"): 54 - 24,
        (1, 0, "transfer"): 2,
        (1, 0, "compute"): 10,
    }
    # Stage 2 has not posted its receive: from 34 to 54 it is its own host that holds all up.
    assert right.totals(2)["host"] == 20


def test_two_stages_that_wait_for_each_other_in_a_circle() -> None:
    # GIVEN each sends to the other at 10, but their hosts receive at 70 and at 80 only
    stage_0, stage_1 = Rank(0, 0), Rank(1, 1)
    for rank, other, late in ((stage_0, 1, 70), (stage_1, 0, 80)):
        rank.send(other, ACTIVATION_BYTES, 4, [rank.compute(10)])
        rank.until(late)
        rank.compute(5, [rank.receive(other, ACTIVATION_BYTES, 4)])
    right = examined(play(Program((stage_0, stage_1), {"pp": (0, 1)})))
    # THEN until 70 neither is the cause. Stage 0 receives from 70 to 74 and computes until 79; in the last
    # of the ns until 80, and stage 1 in all 6 of them, the host of stage 1 is
    assert right.blame == {
        (0, 1, "follow_on"): 60,
        (1, 0, "follow_on"): 60,
        (0, 1, "host"): 1,
        (1, 1, "host"): 6,
    }


def test_of_several_waits_the_first_counts() -> None:
    # GIVEN stage 1 waits for stage 2 from 5 on, and for stage 0 from 8 on
    ranks = [Rank(stage, stage) for stage in range(3)]
    first, second, third = ranks
    first.send(1, ACTIVATION_BYTES, 2, [first.compute(40)])
    third.send(1, ACTIVATION_BYTES, 2, [third.compute(20)])
    begun = second.compute(5)
    later = second.receive(2, ACTIVATION_BYTES, 2, [begun])
    second.until(8)
    second.compute(5, [later, second.receive(0, ACTIVATION_BYTES, 2, [begun])])
    right = examined(play(Program(tuple(ranks), {"pp": (0, 1, 2)})))
    # THEN stage 2 is to blame until it sends at 20, and stage 0 after that, until 40
    assert of_stage(1, right.blame) == {(1, 2, "compute"): 15, (1, 0, "compute"): 18}


def test_decode_over_three_stages() -> None:
    # GIVEN a prompt and two decode steps, tokens broadcast; streams begin 1 ns after each other
    steps = [Step((10, 10, 10), samples=True), decode(4, 6, 8), decode(4, 6, 8)]
    execution: Execution = play(Engine(stagger=1).program(steps))
    right = examined(execution, phases=True)
    # THEN stage 0 waits for tokens from 13 to 41 and from 50 to 72, and every ns of it is the last stage's
    assert of_stage(0, right.blame) == {(0, 2, "token"): 28 + 22, (0, 0, "host"): 3}
