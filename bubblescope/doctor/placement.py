"""Layers over the stages of vLLM and SGLang, and whether each stage fits its cards."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from bubblescope.doctor.invocation import NAMES, Invocation
from bubblescope.doctor.memory import even_partition, stage_needs
from bubblescope.doctor.model_facts import ModelFacts
from bubblescope.doctor.remark import Remark
from bubblescope.doctor.rig import Part, counted, gib, merged, spread
from bubblescope.doctor.versions import Version

_PARTITIONS = {"vllm": "VLLM_PP_LAYER_PARTITION", "sglang": "SGLANG_PP_LAYER_PARTITION"}
_KV_SOURCE = "vllm 0.12.0 to 0.33.0 v1/core/kv_cache_utils.py, kv_cache_planning.py"


def placed(
    command: Invocation, version: Version | None, model: ModelFacts, rig: Sequence[Part]
) -> Iterator[Remark]:
    """What is wrong with the stages of vLLM or SGLang."""
    if command.is_of_several_hosts:
        return
    stages, tensor, replicas = command.count("pipeline"), command.count("tensor"), _replicas(command)
    devices = spread(rig)
    used = _ranks(command)
    shape = f"{counted(stages, 'stage')} of {counted(tensor, 'rank')}"
    shape += f", {replicas} times," if replicas > 1 else ""
    if used > len(devices):
        text = f"{shape} need {used} GPUs, and here are {len(devices)}"
        yield Remark("fails", text, "fewer stages (--pp-size, --pipeline-parallel-size) or ranks", "")
        return
    if used < len(devices):
        yield _unused(
            command, f"{shape} use {used} of {len(devices)} GPUs", devices[used:], tensor * replicas
        )
    partition, problem = _partition(command, model.layers, stages)
    if problem is not None:
        yield problem
        return
    if partition is None:
        return
    yield from _triton_trap(command, version, partition)
    yield from _memory(command, version, model, devices, partition)


def used_cards(command: Invocation | None, rig: Sequence[Part]) -> tuple[Part, ...]:
    """The part of a rig that the command works with: the first cards, as many as it has ranks."""
    if command is None or command.engine not in _PARTITIONS or command.is_of_several_hosts:
        return tuple(rig)
    return merged(spread(rig)[: _ranks(command)])


def _ranks(command: Invocation) -> int:
    return command.count("pipeline") * command.count("tensor") * _replicas(command)


def _replicas(command: Invocation) -> int:
    """Copies of the whole pipeline; SGLang's attention data parallelism stays within the ranks of a stage."""
    return 1 if "enable-dp-attention" in command.options else command.count("data")


def _unused(command: Invocation, what: str, idle: Sequence[Part], ranks: int) -> Remark:
    names = ", ".join(f"{part.device} ×{part.count}" for part in merged(idle))
    flag = "--pipeline-parallel-size" if command.engine == "vllm" else "--pp-size"
    stages = command.count("pipeline") + len(idle) // ranks
    return Remark(
        "warns",
        f"{what}: {names} hold no layers and no KV cache, and do not work",
        f"{flag} {stages}, with fewer layers on slow cards; CUDA_VISIBLE_DEVICES says which are used",
        "",
    )


def _partition(
    command: Invocation, layers: int | None, stages: int
) -> tuple[tuple[int, ...] | None, Remark | None]:
    """Layers per stage, or what is wrong with those that the environment names."""
    variable = _PARTITIONS[command.engine]
    text = command.environment.get(variable)
    if text is None:
        return (even_partition(command.engine, layers, stages) if layers else None), None
    source = f"{NAMES[command.engine]} distributed/utils.py get_pp_indices"
    try:
        partition = tuple(map(int, text.split(",")))
    except ValueError:
        return None, Remark(
            "fails", f"{variable}={text[:60]!r} is not a list of numbers", "write 27,9", source
        )
    what = f"{variable}={','.join(map(str, partition))[:60]}"
    if len(partition) != stages:
        flag = "--pipeline-parallel-size" if command.engine == "vllm" else "--pp-size"
        text = f"{what} names {len(partition)} stages, and the command starts {stages}"
        return None, Remark("fails", text, f"one number for each stage, or {flag} {len(partition)}", source)
    if layers is not None and sum(partition) != layers:
        text = f"{what} sums to {sum(partition)} layers, and the model has {layers}"
        return None, Remark("fails", text, f"numbers that sum to {layers}", source)
    if min(partition) < 1:
        return None, Remark(
            "fails", f"{what} leaves a stage without layers", "at least 1 for each stage", source
        )
    return partition, None


def _triton_trap(command: Invocation, version: Version | None, partition: Sequence[int]) -> Iterator[Remark]:
    """SGLang's triton backend looks at layer 0 of a stage's own list by its number in the whole model.

    A stage that begins later than its own count of layers has no such place: a negative index that an
    even split in two just gets away with.
    """
    if command.engine != "sglang" or command.given("attention") != "triton":
        return
    if version is None or not (0, 5, 1) <= version < (0, 5, 18):
        return
    begins = [sum(partition[:stage]) for stage in range(len(partition))]
    trapped = [stage for stage, begin in enumerate(begins) if begin > partition[stage]]
    if trapped:
        stage = trapped[0]
        yield Remark(
            "fails",
            f"stage {stage} begins at layer {begins[stage]} and holds {partition[stage]}: with the triton "
            "attention backend SGLang before 0.5.18 dies at start with IndexError in get_value_buffer",
            "SGLang 0.5.18 or newer, --attention-backend torch_native or flashinfer, or no stage that holds "
            "fewer layers than all stages before it",
            "sglang 0.5.1 to 0.5.17 layers/attention/triton_backend.py get_value_buffer(0); mended in 0.5.18",
        )


def _memory(
    command: Invocation,
    version: Version | None,
    model: ModelFacts,
    devices: Sequence[Part],
    partition: Sequence[int],
) -> Iterator[Remark]:
    """Weights, and for vLLM the KV cache of one longest sequence, against each stage's smallest card."""
    tokens = _tokens(command.given("context")) or model.context
    if model.weights is None or tokens is None:
        return
    tensor = command.count("tensor")
    fraction = _fraction(command, version)
    needs = stage_needs(
        model.weights, model.kv_values, partition, tensor, tokens, command.given("kv") or "auto"
    )
    # vLLM 0.14 to 0.16 asks every stage for the KV cache of all layers (vllm#34076).
    whole = command.engine == "vllm" and version is not None and (0, 14) <= version < (0, 17)
    for stage, need in enumerate(needs):
        cards = devices[stage * tensor : (stage + 1) * tensor]
        sizes = [card.memory_bytes for card in cards if card.memory_bytes is not None]
        if not sizes:
            continue
        budget = int(min(sizes) * fraction)
        where = f"stage {stage} ({cards[0].device})"
        room = f"{gib(budget)} ({fraction:g} of {gib(min(sizes))})"
        kv = sum(each.kv for each in needs) if whole else need.kv
        if need.weights > budget:
            text = f"{where}: {gib(need.weights)} of weights do not fit in {room}"
            yield Remark("fails", text, "give this stage fewer layers", "")
        elif need.weights + kv > budget and command.engine == "vllm":
            all_layers = " (vLLM 0.14 to 0.16 asks each stage for all layers)" if whole else ""
            text = (
                f"{where}: {gib(need.weights)} of weights and {gib(kv)} of KV cache for {tokens} "
                f"tokens{all_layers} do not fit in {room}"
            )
            yield Remark("fails", text, "--max-model-len smaller, or this stage fewer layers", _KV_SOURCE)


def _fraction(command: Invocation, version: Version | None) -> float:
    """The part of a card's memory that the engine will use."""
    given = command.given("memory")
    try:
        fraction = float(given) if given is not None else 0.0
    except ValueError:
        fraction = 0.0
    if 0 < fraction <= 1:
        return fraction
    if command.engine == "sglang":
        return 1.0
    return 0.92 if version is None or version >= (0, 20) else 0.9


def _tokens(text: str | None) -> int | None:
    """vLLM writes 128k for 128,000 and 128K for 131,072."""
    found = re.fullmatch(r"([0-9]{1,9})([kK]?)", text or "")
    return int(found[1]) * {"": 1, "k": 1000, "K": 1024}[found[2]] if found else None
