"""Whether llama.cpp will pipeline at all, and whether the model fits its cards."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from bubblescope.doctor.invocation import Invocation
from bubblescope.doctor.model_facts import ModelFacts
from bubblescope.doctor.remark import Remark
from bubblescope.doctor.rig import Part, counted, gib, merged, spread

#: Below this a reused graph drains llama.cpp's pipeline at nearly every microbatch.
SMALLEST_UBATCH = 256


def pipelined(command: Invocation, model: ModelFacts, rig: Sequence[Part]) -> Iterator[Remark]:
    """The conditions under which llama.cpp pipelines at all; where one fails it works stage after stage."""
    source = "llama.cpp b11434 src/llama-context.cpp pipeline_parallel"
    for why, way_out in _not_pipelined(command, model, len(spread(rig))):
        yield Remark("warns", f"llama.cpp will not pipeline: {why}", way_out, source)
    ubatch = command.given("ubatch")
    if ubatch is not None and ubatch.isdecimal() and int(ubatch) < SMALLEST_UBATCH:
        text = f"--ubatch-size {int(ubatch)} drains the pipeline at each reused graph"
        way_out = f"-ub {SMALLEST_UBATCH} or more, or LLAMA_GRAPH_REUSE_DISABLE=1"
        yield Remark("warns", text, way_out, "llama.cpp b11434 src/llama-context.cpp")
    yield from _unused(command, spread(rig))
    sizes = [part.memory_bytes for part in spread(rig)]
    known = [size for size in sizes if size is not None]
    if model.weights is not None and len(known) == len(sizes) and model.weights.total > sum(known):
        text = f"{gib(model.weights.total)} of weights do not fit in {gib(sum(known))} of all cards"
        yield Remark("warns", text, "a smaller quantization; what is over is computed on the CPU", "")


def _not_pipelined(command: Invocation, model: ModelFacts, devices: int) -> Iterator[tuple[str, str]]:
    if devices < 2:
        yield "there is one GPU only", "more than one"
    on_gpu = command.given("gpu layers")
    if on_gpu and on_gpu.isdecimal() and model.layers is not None and int(on_gpu) <= model.layers:
        yield f"-ngl {int(on_gpu)} leaves layers or the output on the CPU", f"-ngl {model.layers + 1} or more"
    split = command.given("split")
    if split not in (None, "layer"):
        yield f"--split-mode {split} is not layer", "-sm layer"
    if command.given("kv on cpu") is not None:
        yield "--no-kv-offload keeps the KV cache on the CPU", "leave it out"
    if command.given("override") is not None:
        yield "a tensor override is set (-ot, -cmoe, -ncmoe)", "leave it out, also for token_embd"


def _unused(command: Invocation, devices: Sequence[Part]) -> Iterator[Remark]:
    """Cards that get no layers: not among --device, or without a share in --tensor-split."""
    named, shares = command.given("devices"), command.given("shares")
    if command.given("split") == "none":
        idle = devices[1:]
    elif named is not None:
        idle = devices[len(named.split(",")) :]
    elif shares is not None:
        given = [share.strip(" 0.") for share in re.split("[,/]", shares)]
        idle = [part for at, part in enumerate(devices) if at >= len(given) or not given[at]]
    else:
        return
    if idle:
        names = ", ".join(f"{part.device} ×{part.count}" for part in merged(idle))
        text = f"{counted(len(idle), 'GPU')} of {len(devices)} unused: {names} hold no layers and do not work"
        yield Remark("warns", text, "name them in --device, and give each a share in --tensor-split", "")
