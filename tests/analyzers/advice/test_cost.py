from __future__ import annotations

import numpy as np
import pytest

from bubblescope.analyzers.advice.cost import CLOCK_FALL, fit_cost, robust_fit
from bubblescope.analyzers.advice.occupancy import CannotTellError, Occupancy
from tests.analyzers.advice.recordings import Chunk, Model, chunks, occupied

#: Chunks of several sizes, so that what a token costs can be told from what a microbatch costs.
SIZES = [*chunks(5000, 1000), *chunks(1700, 400), *chunks(2500, 800)]


def of(model: Model, layers: tuple[int, ...], sizes: list[Chunk] = SIZES) -> Occupancy:
    return occupied(
        [[held * model.layer_ns(stage, chunk) for chunk in sizes] for stage, held in enumerate(layers)],
        tokens=[chunk.tokens for chunk in sizes],
        prefix=[chunk.prefix for chunk in sizes],
    )


def test_finds_what_a_microbatch_a_token_and_a_pair_of_tokens_cost() -> None:
    model = fit_cost(of(Model(fixed=4000, token=20, pair=0.02), (27, 9)), (27, 9), ("a", "b"))
    for fit in model.fits:
        fixed, token, pair, whole_prompt = fit.coefficients
        assert (fixed, token, pair) == pytest.approx((4000, 20, 0.02), rel=1e-3)
        assert whole_prompt * 5000**2 < 10
    # WHEN the layers move THEN the first chunk of 1000 tokens takes 18 · (4000 + 20,000 + 10,000)
    assert model.times_ns((18, 18))[:, 0] == pytest.approx([612_000, 612_000], rel=1e-3)


def test_finds_attention_that_goes_over_the_whole_prompt_with_every_chunk() -> None:
    # GIVEN 50 per token and 0.01 per square of all tokens so far
    sizes = chunks(8000, 1000)
    values = np.array([50 * chunk.tokens + 0.01 * (chunk.prefix + chunk.tokens) ** 2 for chunk in sizes])
    work = occupied([values], tokens=[c.tokens for c in sizes], prefix=[c.prefix for c in sizes])
    model = fit_cost(work, (1,), ("a",))
    assert model.per_layer_ns[0] == pytest.approx(values, rel=1e-3)


def test_a_hiccup_is_left_out_of_the_fit_and_kept_apart() -> None:
    # GIVEN a microbatch that takes a second longer on stage 0
    work = of(Model(), (10, 2))
    calm = fit_cost(work, (10, 2), ("a", "b"))
    work.layers_ns[0, 3] += 1_000_000_000
    model = fit_cost(work, (10, 2), ("a", "b"))
    assert model.fits[0].coefficients == pytest.approx(calm.fits[0].coefficients, rel=1e-3)
    assert model.hiccup_ns[0, 3] == pytest.approx(1_000_000_000, rel=1e-3)
    assert np.count_nonzero(model.hiccup_ns) == 1
    assert model.fits[0].hiccups.tolist() == [number == 3 for number in range(len(SIZES))]


def test_without_sizes_all_microbatches_are_alike() -> None:
    model = fit_cost(occupied([[30, 32, 34, 32]]), (2,), ("a",))
    # (30 + 32 + 34 + 32) / 4 / 2 layers
    assert model.per_layer_ns.tolist() == [[16, 16, 16, 16]]


def test_the_half_width_of_a_mean() -> None:
    # GIVEN four values with mean 100: squares 4 + 4 + 0 + 0, variance 8/3, of the sum 4 · 8/3
    fit = robust_fit(np.ones((4, 1)), np.array([98.0, 102.0, 100.0, 100.0]))
    assert fit.coefficients == pytest.approx((100,))
    # Student's t for 3 degrees of freedom is 3.18
    assert fit.half_width == pytest.approx(3.18 * (4 * 8 / 3) ** 0.5 / 400)
    assert fit.scatter == pytest.approx(0.01)


def test_no_coefficient_is_negative() -> None:
    # GIVEN costs that fall with the tokens
    columns = np.array([[1.0, 1.0], [1.0, 2.0], [1.0, 3.0], [1.0, 4.0]])
    fit = robust_fit(columns, np.array([40.0, 30.0, 20.0, 10.0]))
    assert fit.coefficients == pytest.approx((25, 0))


def test_decode_steps_have_a_cost_of_their_own() -> None:
    model = fit_cost(
        occupied([[30, 30, 2, 30, 4, 30]], decode=[False, False, True, False, True, False]), (1,), ("a",)
    )
    assert model.per_layer_ns.tolist() == [[30, 30, 3, 30, 3, 30]]


def test_ends_do_not_grow_with_the_layers() -> None:
    work = occupied([[30] * 4, [30] * 4], ends_ns=[[5] * 4, [7] * 4])
    model = fit_cost(work, (3, 3), ("a", "b"))
    # 5 + 1 · 10 and 7 + 5 · 10
    assert model.times_ns((1, 5))[:, 0].tolist() == [15, 57]


def test_too_few_microbatches_tell_nothing() -> None:
    with pytest.raises(CannotTellError, match="microbatches of prefill recorded: 3"):
        fit_cost(occupied([[30, 30, 30, 9]], decode=[False, False, False, True]), (1,), ("a",))


def test_a_twin_that_waits_is_counted_as_busy() -> None:
    # GIVEN stage 1 mostly waits and takes 9 per layer where stage 0 takes 10
    work = occupied([[270] * 4, [81] * 4])
    model = fit_cost(work, (27, 9), ("H200", "H200"))
    assert model.twin == (0, 0)
    assert model.per_layer_ns[:, 0].tolist() == [10, 10]
    # THEN what it took while it waited is the least that it may take
    assert model.low.tolist() == pytest.approx([1, 0.9])
    assert model.high.tolist() == pytest.approx([1, 1])


@pytest.mark.parametrize(
    ("per_layer", "types"),
    [
        pytest.param(9, ("H200", "4090"), id="another type of device"),
        pytest.param(9, (None, None), id="types unknown"),
        pytest.param(12, ("H200", "H200"), id="slower although it waits: a straggler"),
        pytest.param(7, ("H200", "H200"), id="faster than a clock explains"),
    ],
)
def test_any_other_stage_keeps_its_own_cost(per_layer: int, types: tuple[str | None, str | None]) -> None:
    model = fit_cost(occupied([[270] * 4, [9 * per_layer] * 4]), (27, 9), types)
    assert model.twin == (0, 1)
    assert model.per_layer_ns[:, 0].tolist() == [10, per_layer]
    # THEN it may still turn out slower, as it waited for a part of the time
    waited = 1 - 9 * per_layer / 270
    assert model.high.tolist() == pytest.approx([1, 1 + CLOCK_FALL * waited])
