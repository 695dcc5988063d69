from __future__ import annotations

from bisect import bisect_right

import numpy as np
import pytest

from bubblescope.analyzers.advice.engines import runnable, starts, words
from bubblescope.analyzers.advice.partition import allowed_ranges
from bubblescope.trace.model import Run


def test_each_engine_has_its_own_words() -> None:
    assert words("vllm", (18, 18)) == "VLLM_PP_LAYER_PARTITION=18,18"
    assert words("sglang", (20, 16)) == "SGLANG_PP_LAYER_PARTITION=20,16"
    assert words("bubblescope-demo", (7, 5)) == "BUBBLESCOPE_DEMO_PARTITION=7,5"
    assert words(None, (7, 5)) == "split the layers 7,5 over the stages"


def llama_cpp_layers(shares: list[int], layers: int, offloaded: int) -> list[int]:
    """llama.cpp's own rounding, in 32-bit floats: devices of all layers, the output layer being the last."""
    sums = np.cumsum(np.array(shares, dtype=np.float32), dtype=np.float32)
    borders = (sums / sums[-1]).tolist()
    active = min(offloaded, layers + 1)
    first = max(layers + 1 - offloaded, 0)
    devices = [
        bisect_right(borders, float(np.float32(layer - first) / np.float32(active)))
        for layer in range(layers + 1)
    ]
    return [devices[:-1].count(device) for device in range(len(shares))]


def test_llama_cpp_rounds_the_shares_to_exactly_these_layers() -> None:
    assert words("llama.cpp", (5, 4, 3)) == "--n-gpu-layers 13 --split-mode layer --tensor-split 5,4,4"
    rng = np.random.default_rng(7)
    for _ in range(500):
        layers = rng.integers(1, 40, rng.integers(2, 9)).tolist()
        said = words("llama.cpp", layers).split()
        shares = [int(share) for share in said[-1].split(",")]
        assert llama_cpp_layers(shares, sum(layers), int(said[1])) == layers


TRITON = ("sglang", "serve", "--attention-backend", "triton")


@pytest.mark.parametrize(
    ("command", "recorded", "split", "answer"),
    [
        (TRITON, (18, 18), (20, 16), False),
        (TRITON, (18, 18), (16, 20), True),
        (("sglang", "--attention-backend=torch_native"), (18, 18), (20, 16), True),
        ((), (18, 18), (20, 16), None),
        # What was recorded did start, so it does not use that backend.
        ((), (27, 9), (20, 16), True),
    ],
)
def test_sglang_with_triton_needs_as_many_layers_on_a_stage_as_before_it(
    command: tuple[str, ...], recorded: tuple[int, int], split: tuple[int, int], answer: bool | None
) -> None:
    assert starts(Run(engine="sglang", command=command), recorded, split) is answer
    assert starts(Run(engine="vllm", command=command), recorded, split)


def test_splits_that_do_not_start_are_not_advised() -> None:
    allowed = allowed_ranges(2, 36)
    left = runnable(Run(engine="sglang", command=TRITON), (18, 18), allowed)
    assert np.flatnonzero(left[0, 0]).tolist() == list(range(1, 37))
    # A second stage from layer k on holds 36 - k, at least k.
    assert np.flatnonzero(left[1, 1:, 36]).tolist() == list(range(18))
    assert (runnable(Run(engine="vllm", command=TRITON), (18, 18), allowed) == allowed).all()
