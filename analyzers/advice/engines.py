"""A split in each engine's own words, and the splits that an engine cannot run."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from pathlib import PurePosixPath

import numpy as np

from bubblescope.analyzers.advice.occupancy import Flags
from bubblescope.analyzers.advice.tensor_split import shares_for
from bubblescope.trace.model import Run

_VARIABLES = {
    "vllm": "VLLM_PP_LAYER_PARTITION",
    "sglang": "SGLANG_PP_LAYER_PARTITION",
    "bubblescope-demo": "BUBBLESCOPE_DEMO_PARTITION",
}
#: What people write for `-ngl` to mean all.
_ALL_LAYERS = 99
_ATTENTION_FLAGS = ("--attention-backend", "--prefill-attention-backend")
_CHUNK_FLAGS = {
    "vllm": "--max-num-batched-tokens",
    "sglang": "--chunked-prefill-size or --enable-dynamic-chunking",
    "llama.cpp": "--ubatch-size",
}


def words(run: Run, layers: Sequence[int], devices: Sequence[str | None]) -> str:
    """What to type so that the engine splits its layers so; a sentence where it is not known.

    devices: of each stage the name, as the engine has it.
    """
    listed = ",".join(map(str, layers))
    if run.engine in _VARIABLES:
        return f"{_VARIABLES[run.engine]}={listed}"
    if run.engine == "llama.cpp":
        return _llama_cpp(run.command, layers, devices)
    return f"split the layers {listed} over the stages"


def _llama_cpp(command: Sequence[str], layers: Sequence[int], devices: Sequence[str | None]) -> str:
    # To llama-bench a comma separates one benchmark's values from the next one's.
    separator = "/" if any(PurePosixPath(word).name == "llama-bench" for word in command) else ","
    named = [name for name in devices if name]
    order = [f"-dev {separator.join(named)}"] if len(named) == len(layers) else []
    shares = separator.join(map(str, shares_for(layers)))
    return " ".join((f"-ngl {max(_ALL_LAYERS, sum(layers) + 1)} -sm layer", *order, f"-ts {shares}"))


def chunk_flags(engine: str | None) -> str | None:
    """What sets how a prompt is cut into chunks; None where that is not known."""
    return _CHUNK_FLAGS.get(engine or "")


def waits_for_answers(run: Run) -> bool:
    """Whether the engine runs a batch only once an earlier one has come back from the last stage.

    SGLang keeps as many batches under way as there are stages, and more only with
    --pp-async-batch-depth.
    """
    return run.engine == "sglang" and run.facts.get("asynchronous_batch_depth") == 0


def starts(run: Run, recorded: Sequence[int], layers: Sequence[int]) -> bool | None:
    """Whether the engine starts with a split; None where that depends on what is not recorded.

    SGLang's triton attention looks up layer 0 on every stage by its distance from the stage's first
    layer. That fails on a stage which holds fewer layers than stand before it.
    """
    if run.engine != "sglang" or not _crashes_triton(layers) or _crashes_triton(recorded):
        return True
    backend = _attention_backend(run)
    return None if backend is None else backend != "triton"


def runnable(run: Run, recorded: Sequence[int], allowed: Flags) -> Flags:
    """Of the allowed ranges (S, L + 1, L + 1) those that the engine starts with."""
    if run.engine != "sglang" or _crashes_triton(recorded) or _attention_backend(run) != "triton":
        return allowed
    begin = np.arange(allowed.shape[1])
    return np.asarray(allowed & (begin[np.newaxis, :] - begin[:, np.newaxis] >= begin[:, np.newaxis]))


def _crashes_triton(layers: Sequence[int]) -> bool:
    before = [0, *accumulate(layers[:-1])]
    return any(held < earlier for held, earlier in zip(layers, before, strict=True))


def _attention_backend(run: Run) -> str | None:
    """As the engine told, or its command names it."""
    told = run.facts.get("attention_backend")
    if isinstance(told, str):
        return told
    for flag, value in zip(run.command, (*run.command, "")[1:], strict=True):
        name, equals, same = flag.partition("=")
        if name in _ATTENTION_FLAGS:
            return same if equals else value
    return None
