"""Whether weights and KV cache fit: arithmetic on bytes, stage by stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bubblescope.doctor.model_facts import Weights

#: Bytes of one number in the KV cache, by the name that the engines give the format. NVFP4 has one
#: byte of scale for each 16 numbers.
KV_BYTES = {"fp8": 1.0, "nvfp4": 0.5 + 1 / 16, "int8": 1.0, "fp4": 0.5 + 1 / 16}
_KV_BYTES_DEFAULT = 2.0


@dataclass(frozen=True)
class StageNeed:
    """What one rank of a stage has to hold, in bytes; kv is for one sequence of the longest length."""

    weights: int
    kv: int


def stage_needs(
    weights: Weights,
    kv_values: Sequence[int] | None,
    partition: Sequence[int],
    tensor: int,
    tokens: int,
    kv_format: str,
) -> tuple[StageNeed, ...]:
    """The need of each stage of a partition, shared among `tensor` ranks. KV is 0 where not known."""
    needs: list[StageNeed] = []
    begin = 0
    for stage, count in enumerate(partition):
        held = slice(begin, begin + count)
        begin += count
        ends = weights.before * (stage == 0) + weights.after * (stage == len(partition) - 1)
        values = sum(kv_values[held]) if kv_values is not None else 0
        needs.append(
            StageNeed(
                (sum(weights.layers[held]) + ends) // tensor,
                int(values * _kv_bytes(kv_format) * tokens) // tensor,
            )
        )
    return tuple(needs)


def _kv_bytes(kv_format: str) -> float:
    return next((size for name, size in KV_BYTES.items() if kv_format.startswith(name)), _KV_BYTES_DEFAULT)


def even_partition(engine: str, layers: int, stages: int) -> tuple[int, ...]:
    """How an engine splits layers that nobody split for it.

    vLLM gives what is left over to the stages before the last, from the second-last backwards;
    SGLang (0.5.6 and newer) to the last ones.
    """
    each, over = divmod(layers, stages)
    out = [each] * stages
    for n in range(over):
        out[-(n + 2) if engine == "vllm" else -(n + 1)] += 1
    return tuple(out)
