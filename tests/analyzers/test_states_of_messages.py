"""Sends and receives: what is moving data, what waits, and for what NCCL has a buffer."""

from __future__ import annotations

from tests.pipelines.agreement import examined
from tests.pipelines.engine import ACTIVATION_BYTES, Engine, prefill
from tests.pipelines.execution import play
from tests.pipelines.program import Program, Rank


def test_a_rendezvous_send_is_blocked_until_its_receive_begins() -> None:
    # GIVEN no buffer; stage 1 receives the third chunk at 74, stage 0 sends it from 44 on
    right = examined(play(Engine().program(prefill([10] * 3, [30] * 3))))
    # THEN the second send (20 to 44) is seen from 30, when stage 0 no longer computes
    assert right.totals(0) == {"compute": 30, "blocked": 12 + 30, "transfer": 2 * 2, "drain": 30}


def test_an_eager_send_into_a_free_buffer_is_transfer() -> None:
    # GIVEN a buffer for two messages and 4 ns on the link
    right = examined(play(Engine(link=4, buffers=2).program(prefill([10] * 3, [30] * 3))))
    # THEN the last send copies for 4 ns, nobody is blocked, and stage 1 drains each message for 4 ns
    assert right.totals(0) == {"compute": 30, "transfer": 4, "drain": 78}
    assert right.totals(1) == {"fill": 10, "compute": 90, "transfer": 3 * 4}


def test_an_eager_send_without_room_is_blocked_but_for_its_copy() -> None:
    # GIVEN a buffer for one message, which receive 1 frees at 48
    right = examined(play(Engine(link=4, buffers=1).program(prefill([10] * 3, [30] * 3))))
    # THEN the last send, launched at 30, ends at 52 before its receive at 78, and 4 ns of it are its copy:
    # as long as the first send took, whose receive was there
    assert right.totals(0) == {"compute": 30, "blocked": 18, "transfer": 4, "drain": 60}


def test_where_no_send_met_its_receive_the_shortest_tells_the_copy() -> None:
    # GIVEN stage 1 receives at 100, 200 and 300, long after the sends; the third send waits for room
    right = examined(play(Engine(link=4, buffers=2, host=(0, 100)).program(prefill([10] * 3, [30] * 3))))
    # THEN of its 78 ns from 30 on the last 4 are the copy, as long as the first two took
    assert right.totals(0) == {"compute": 30, "blocked": 74, "transfer": 4, "drain": 226}


def test_where_receives_came_during_sends_the_copy_is_what_followed() -> None:
    # GIVEN a buffer for one message; the first takes 10 ns to copy, the second 4
    stage_0, stage_1 = Rank(0, 0), Rank(1, 1)
    chunk = stage_0.compute(10)
    stage_0.send(1, ACTIVATION_BYTES, 10, [chunk])
    stage_0.send(1, ACTIVATION_BYTES, 4, [chunk])
    stage_1.until(50)
    received = [stage_1.receive(0, ACTIVATION_BYTES, 10), stage_1.receive(0, ACTIVATION_BYTES, 4)]
    stage_1.compute(10, received)
    right = examined(play(Program((stage_0, stage_1), {"pp": (0, 1)}, buffers=1)))
    # THEN send 0 (10 to 20) ended before receive 0 (50 to 60); send 1 (20 to 64) met receive 1 at 60 and
    # took 4 more, so 4 of send 0 are transfer and 6 blocked
    assert right.states[0][10:16] == ("blocked",) * 6
    assert right.states[0][16:20] == ("transfer",) * 4
    assert right.totals(0) == {"compute": 10, "blocked": 6 + 40, "transfer": 4 + 4, "drain": 10}


def test_the_copy_is_the_median_of_the_sends_whose_receive_was_there() -> None:
    # GIVEN three sends of 4, 6 and 20 ns whose receives were there, and two into the buffer
    stage_0, stage_1 = Rank(0, 0), Rank(1, 1)
    for ns in (4, 6, 20, 20, 2):
        stage_0.wait(stage_0.send(1, ACTIVATION_BYTES, ns, [stage_0.compute(10)]))
    early = [stage_1.receive(0, ACTIVATION_BYTES, ns) for ns in (4, 6, 20)]
    stage_1.compute(100, early)
    stage_1.until(150)
    late = [stage_1.receive(0, ACTIVATION_BYTES, ns) for ns in (20, 2)]
    stage_1.compute(10, late)
    right = examined(play(Program((stage_0, stage_1), {"pp": (0, 1)}, buffers=2)))
    # THEN of the fourth (70 to 90) the last 6 are transfer, and the fifth (100 to 102) is all transfer
    assert right.states[0][70:84] == ("blocked",) * 14
    assert right.states[0][84:90] == ("transfer",) * 6
    assert right.totals(0) == {"compute": 50, "transfer": 4 + 6 + 20 + 6 + 2, "blocked": 14, "drain": 80}


def test_sends_of_another_size_do_not_tell_the_copy() -> None:
    # GIVEN a small message that met its receive in 2 ns, and big ones of 8 ns that did not
    stage_0, stage_1 = Rank(0, 0), Rank(1, 1)
    chunk = stage_0.compute(10)
    stage_0.send(1, 16, 2, [chunk])
    stage_0.send(1, ACTIVATION_BYTES, 8, [chunk])
    small = stage_1.receive(0, 16, 2)
    stage_1.compute(40, [small])
    stage_1.until(60)
    stage_1.compute(10, [stage_1.receive(0, ACTIVATION_BYTES, 8)])
    right = examined(play(Program((stage_0, stage_1), {"pp": (0, 1)}, buffers=2)))
    # THEN the big send is transfer for all of its 8 ns
    assert right.totals(0) == {"compute": 10, "transfer": 2 + 8, "drain": 58}


def test_each_side_of_a_transfer_ends_for_itself() -> None:
    # GIVEN receives that end 3 ns after their sends
    right = examined(play(Engine(lag=3).program(prefill([30] * 2, [10] * 2))))
    assert right.totals(0) == {"compute": 60, "transfer": 2, "drain": 3 + 10}
    assert right.totals(1) == {"fill": 30, "compute": 20, "transfer": 2 * 5, "starved": 30 - 5 - 10}


def test_two_tensors_make_one_chunk() -> None:
    # GIVEN two tensors of 4 ns per chunk
    right = examined(play(Engine(link=4, tensors=2).program(prefill([30] * 2, [10] * 2))))
    # THEN the second chunk arrives at 60 + 8; stage 1 waits from 38 + 10 on
    assert right.totals(0) == {"compute": 60, "transfer": 8, "drain": 10}
    assert right.totals(1) == {"fill": 30, "compute": 20, "transfer": 2 * 8, "starved": 12}


def test_a_receive_that_waits_under_compute_costs_nothing() -> None:
    # GIVEN receives posted early on a stream of their own, and stage 1 the slower one
    right = examined(play(Engine(link=4, early=True).program(prefill([30] * 3, [40] * 3))))
    # THEN stage 1 computes without a break
    assert right.totals(1) == {"fill": 30, "compute": 120, "transfer": 4}
    assert right.blame == {}


def test_an_early_receive_starves_from_the_end_of_compute_on() -> None:
    # GIVEN the same with stage 1 the faster one: it waits in each receive from the start
    right = examined(play(Engine(link=4, early=True).program(prefill([30] * 3, [20] * 3))))
    # THEN only what is not computed through is starved
    assert right.totals(1) == {"fill": 30, "compute": 60, "transfer": 3 * 4, "starved": 2 * (30 - 4 - 20)}


def test_starved_wins_over_a_send_pending_beside_it() -> None:
    # GIVEN stage 1 of three sends to a stage that computes long, and waits for its next input as well
    right = examined(play(Engine().program(prefill([30] * 3, [10] * 3, [60] * 3))))
    # THEN its second send is pending from 72, its third receive too, until stage 0 sends at 90
    assert right.states[1][72:90] == ("starved",) * 18
    # and after its last computing (92 to 102) only the send is left
    assert right.states[1][102] == "blocked"
