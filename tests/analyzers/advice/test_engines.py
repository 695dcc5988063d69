from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bubblescope.analyzers.advice.engines import chunk_flags, runnable, starts, waits_for_answers, words
from bubblescope.analyzers.advice.partition import allowed_ranges
from bubblescope.trace.model import Run

CUDA = ("CUDA0", "CUDA1", "CUDA2")


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        ("vllm", "VLLM_PP_LAYER_PARTITION=18,18"),
        ("sglang", "SGLANG_PP_LAYER_PARTITION=18,18"),
        ("bubblescope-demo", "BUBBLESCOPE_DEMO_PARTITION=18,18"),
        (None, "split the layers 18,18 over the stages"),
    ],
)
def test_each_engine_has_its_own_words(engine: str | None, said: str) -> None:
    assert words(Run(engine=engine), (18, 18), ("NVIDIA H200", "NVIDIA H200")) == said


def test_llama_cpp_is_told_the_devices_and_one_layer_more_on_the_last() -> None:
    # 12 layers and the output layer: 5 + 4 + 4
    said = words(Run(engine="llama.cpp", command=("/opt/llama-server", "-m", "x.gguf")), (5, 4, 3), CUDA)
    assert said == "-ngl 99 -sm layer -dev CUDA0,CUDA1,CUDA2 -ts 5,4,4"


def test_llama_bench_separates_devices_and_shares_by_slashes() -> None:
    run = Run(engine="llama.cpp", command=("env", "A=1", "./llama-bench", "-m", "x.gguf"))
    assert words(run, (5, 4, 3), CUDA) == "-ngl 99 -sm layer -dev CUDA0/CUDA1/CUDA2 -ts 5/4/4"


def test_llama_cpp_devices_without_a_name_keep_their_order() -> None:
    assert words(Run(engine="llama.cpp"), (5, 4), ("CUDA0", None)) == "-ngl 99 -sm layer -ts 5,5"


def test_llama_cpp_is_asked_for_more_layers_than_99_by_their_number() -> None:
    assert words(Run(engine="llama.cpp"), (60, 60), CUDA[:2]).startswith("-ngl 121 ")


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


def test_the_attention_backend_is_what_the_engine_told_even_if_its_command_does_not_name_it() -> None:
    told = Run(engine="sglang", facts={"attention_backend": "triton"})
    assert starts(told, (18, 18), (20, 16)) is False
    assert starts(replace(told, facts={"attention_backend": "fa3"}), (18, 18), (20, 16))


def test_what_cuts_prompts_into_chunks_has_a_name_in_each_engine() -> None:
    assert chunk_flags("sglang") == "--chunked-prefill-size or --enable-dynamic-chunking"
    assert chunk_flags("vllm") == "--max-num-batched-tokens"
    assert chunk_flags("bubblescope-demo") is None
    assert chunk_flags(None) is None


@pytest.mark.parametrize(("facts", "waits"), [({"asynchronous_batch_depth": 0}, True), ({}, False)])
def test_only_an_sglang_without_asynchronous_depth_is_known_to_wait_for_answers(
    facts: dict[str, int], waits: bool
) -> None:
    assert waits_for_answers(Run(engine="sglang", facts=facts)) is waits
    assert not waits_for_answers(Run(engine="vllm", facts=facts))


def test_splits_that_do_not_start_are_not_advised() -> None:
    allowed = allowed_ranges(2, 36)
    left = runnable(Run(engine="sglang", command=TRITON), (18, 18), allowed)
    assert np.flatnonzero(left[0, 0]).tolist() == list(range(1, 37))
    # A second stage from layer k on holds 36 - k, at least k.
    assert np.flatnonzero(left[1, 1:, 36]).tolist() == list(range(18))
    assert (runnable(Run(engine="vllm", command=TRITON), (18, 18), allowed) == allowed).all()
