"""The states of whole pipelines: key figures by hand, every nanosecond against the simulation."""

from __future__ import annotations

from tests.pipelines.agreement import examined
from tests.pipelines.engine import Engine, prefill
from tests.pipelines.execution import play


def test_even() -> None:
    # GIVEN 3 chunks of 10 ns on each stage and 2 ns on the link
    right = examined(play(Engine().program(prefill([10] * 3, [10] * 3))))
    # THEN stage 0 sends its last chunk at 30, stage 1 takes it when it has computed, at 34
    assert right.totals(0) == {"compute": 30, "blocked": 4, "transfer": 2, "drain": 10}
    assert right.totals(1) == {"fill": 10, "compute": 30, "transfer": 3 * 2}


def test_uneven() -> None:
    # GIVEN 3 chunks, 30 ns on stage 0 and 10 on stage 1
    right = examined(play(Engine().program(prefill([30] * 3, [10] * 3))))
    # THEN stage 1 waits after each of its first two chunks: 30 - 10 - 2 ns
    assert right.totals(0) == {"compute": 90, "transfer": 2, "drain": 10}
    assert right.totals(1) == {"fill": 30, "compute": 30, "transfer": 3 * 2, "starved": 2 * 18}


def test_slow_link() -> None:
    # GIVEN 3 chunks of 10 ns on each stage and 20 ns on the link
    right = examined(play(Engine(link=20).program(prefill([10] * 3, [10] * 3))))
    # THEN stage 1 is never without a message on its way. Stage 0 has computed all at 30, when its first
    # send ends; the second and third wait 10 ns each until stage 1 receives.
    assert right.totals(0) == {"compute": 30, "blocked": 2 * 10, "transfer": 2 * 20, "drain": 10}
    assert right.totals(1) == {"fill": 10, "compute": 30, "transfer": 3 * 20}


def test_slow_host_behind() -> None:
    # GIVEN the host of stage 1 works 15 ns before each chunk and launches nothing ahead
    right = examined(play(Engine(host=(0, 15), lockstep=True).program(prefill([10] * 3, [10] * 3))))
    # THEN stage 1 loses 15 ns before the second and the third chunk, whose inputs are there
    assert right.totals(1) == {"fill": 15, "compute": 30, "transfer": 3 * 2, "host": 2 * 15}
    # and stage 0's sends at 20 and 44 wait until 42 and 69, of which it computes until 30
    assert right.totals(0) == {"compute": 30, "blocked": 12 + 25, "transfer": 2 * 2, "drain": 10}


def test_slow_host_in_front() -> None:
    # GIVEN the host of stage 0 works 15 ns before each chunk and launches nothing ahead
    right = examined(play(Engine(host=(15, 0), lockstep=True).program(prefill([10] * 3, [10] * 3))))
    # THEN of each 15 ns stage 0 sends for the first 2; before its first chunk that is fill
    assert right.totals(0) == {"fill": 15, "compute": 30, "transfer": 3 * 2, "host": 2 * 13, "drain": 10}
    # and stage 1 waits from the end of its computing for 15 + 10 - 2 - 10 ns
    assert right.totals(1) == {"fill": 25, "compute": 30, "transfer": 3 * 2, "starved": 2 * 13}


def test_copies_are_work_but_no_compute() -> None:
    # GIVEN a copy of 5 ns before each computing of 10
    right = examined(play(Engine(copy=5).program(prefill([10] * 2, [10] * 2))))
    # THEN the first is fill, the second begins at 15; 2 ns of it pass beside the send
    assert right.totals(0) == {"fill": 5, "compute": 20, "transfer": 2 * 2, "host": 3, "drain": 10}


def test_six_uneven_stages() -> None:
    # GIVEN two chunks over six stages of 10, 40, 10, 20, 50 and 10 ns
    stages = (10, 40, 10, 20, 50, 10)
    right = examined(play(Engine().program(prefill(*([ns] * 2 for ns in stages)))))
    # THEN every stage computes its two chunks, and the first chunk fills what is before it
    for stage, ns in enumerate(stages):
        assert right.totals(stage)["compute"] == 2 * ns
        assert right.totals(stage).get("fill", 0) == sum(stages[:stage]) + 2 * max(stage - 1, 0)
    # After its first chunk each of stages 2 and 3 sends for 2 ns; the next one is sent to it 40 ns after
    # the first was, for stage 1 sets the pace.
    assert right.totals(2)["starved"] == 40 - 10 - 2
    assert right.totals(3)["starved"] == 40 - 20 - 2
    # Stage 4 is slower than that and never starves.
    assert "starved" not in right.totals(4)


def test_two_ranks_per_stage() -> None:
    # GIVEN two stages of two ranks; the second of each computes 4 ns longer and they all-reduce for 2
    right = examined(play(Engine(skew=(0, 4)).program(prefill([10] * 2, [10] * 2))))
    # THEN it stands for its stage, and the first waits for it; after the last computing that is drain
    assert right.leaders == (1, 3)
    assert right.totals(0) == {
        "compute": 20,
        "starved": 2 * 4,
        "transfer": 2 * 2 + 2,
        "blocked": 2,
        "drain": 16,
    }
    assert right.totals(1) == {"compute": 28, "transfer": 2 * 2 + 2, "blocked": 2, "drain": 16}
    assert right.totals(2) == {"fill": 16, "compute": 20, "transfer": 2 + 4 + 2, "starved": 4, "drain": 4}
