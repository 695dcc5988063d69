"""The brute-force truth says what a person works out by hand, and objects to a wrong analysis."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

import pytest

from tests.pipelines.engine import Engine, prefill
from tests.pipelines.execution import play
from tests.pipelines.truth import Truth, UndefinedError, truth


def stretches(right: Truth, rank: int) -> str:
    """The states of a rank in order, each with its length."""
    return " ".join(f"{state} {len(list(run))}" for state, run in groupby(right.states[rank]))


def test_every_nanosecond_of_an_even_pipeline() -> None:
    right = truth(play(Engine().program(prefill([10] * 3, [10] * 3))), 1000)
    assert stretches(right, 0) == "compute 30 blocked 4 transfer 2 drain 10"
    assert stretches(right, 1) == (
        "fill 10 transfer 2 compute 10 transfer 2 compute 10 transfer 2 compute 10"
    )
    # At 30 the third send has to wait until stage 1 has computed up to 34.
    assert right.blame == {(0, 1, "compute"): 4}


def test_a_wait_is_followed_to_where_it_comes_from() -> None:
    right = truth(play(Engine().program(prefill([30] * 3, [10] * 3, [10] * 3))), 1000)
    assert stretches(right, 2) == (
        "fill 42 transfer 2 compute 10 starved 18 transfer 2 compute 10 starved 18 transfer 2 compute 10"
    )
    # Of each 18 ns stage 1 is starved itself for 6, because stage 0 computes; then 2 ns pass on the
    # link from stage 0, then stage 1 computes for 10.
    assert {key: ns for key, ns in right.blame.items() if key[0] == 2} == {
        (2, 0, "compute"): 12,
        (2, 1, "transfer"): 4,
        (2, 1, "compute"): 20,
    }


def test_how_many_stages_compute_at_once() -> None:
    # Stage 0 computes in 0..20, stage 1 in 12..22 and 24..34.
    right = truth(play(Engine().program(prefill([10] * 2, [10] * 2))), 1000)
    assert right.concurrency() == {0: 2, 1: 12 + 2 + 10, 2: 8}
    assert right.window == (0, 34)


def test_what_the_definition_leaves_open_is_not_decided() -> None:
    # GIVEN both ranks of each stage compute equally long, WHEN one is to stand for the stage
    with pytest.raises(UndefinedError, match="equally"):
        truth(play(Engine(skew=(0, 0)).program(prefill([10], [10]))), 1000)
    # GIVEN the other side of a message is missing
    execution = play(Engine().program(prefill([30] * 2, [10] * 2)))
    half = replace(execution, works=tuple(w for w in execution.works if w.launch.operation != "send"))
    with pytest.raises(UndefinedError, match="not recorded"):
        truth(half, 1000)
