"""llama.cpp's rule for which device holds which layer. Against llama.cpp itself: tests/engines/llamacpp."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from bubblescope.analyzers.advice.tensor_split import devices_of_layers, held_layers, shares_for


def test_shares_are_parts_of_all_layers_and_the_output_layer() -> None:
    # 8 layers and the output layer are 9 places, at 0/9 to 8/9; the bounds lie at 1/3, 2/3 and 1.
    assert devices_of_layers(8, 99, (1, 1, 1)) == (0, 0, 0, 1, 1, 1, 2, 2, 2)
    assert held_layers(8, 99, (1, 1, 1)) == (3, 3, 2)


def test_a_layer_on_a_bound_goes_to_the_later_device() -> None:
    # 3 + 1 places at 0, 1/4, 2/4, 3/4; the bound lies at 2/4.
    assert devices_of_layers(3, 99, (1, 1)) == (0, 0, 1, 1)


def test_the_first_layers_stay_on_the_cpu_where_not_all_are_asked_for() -> None:
    # 5 of 8 + 1: layers 4 to 7 and the output layer, at 0/5 to 4/5.
    assert devices_of_layers(8, 5, (1, 1)) == (None, None, None, None, 0, 0, 0, 1, 1)
    assert held_layers(8, 5, (1, 1)) == (3, 1)


def test_all_layers_are_asked_for_by_a_negative_number() -> None:
    assert devices_of_layers(2, -1, (1, 2)) == (0, 1, 1)


def test_a_device_without_a_share_holds_nothing() -> None:
    assert held_layers(6, 99, (1, 0, 1)) == (4, 0, 2)
    assert held_layers(6, 99, (0, 1)) == (0, 6)


def test_bounds_are_rounded_as_llama_cpp_rounds_them() -> None:
    # 0.1 + 0.2 of 0.4 is 3/4 exactly in float32, so that the place 3/4 is beyond it; in float64 it is more.
    assert (0.1 + 0.2) / (0.1 + 0.2 + 0.1) > 3 / 4
    assert devices_of_layers(3, 99, (0.1, 0.2, 0.1)) == (0, 1, 1, 2)


@pytest.mark.parametrize("layers", [(18, 18), (27, 9), (1, 1, 1), (30, 1, 17, 16), (40, 0, 8)])
def test_advised_shares_give_exactly_the_advised_layers(layers: tuple[int, ...]) -> None:
    assert held_layers(sum(layers), 99, shares_for(layers)) == layers
    assert devices_of_layers(sum(layers), 99, shares_for(layers))[-1] == len(layers) - 1


@given(some.lists(some.integers(0, 60), min_size=1, max_size=8).filter(lambda layers: sum(layers) > 0))
def test_any_split_can_be_asked_for(layers: list[int]) -> None:
    assert held_layers(sum(layers), sum(layers) + 1, shares_for(layers)) == tuple(layers)
