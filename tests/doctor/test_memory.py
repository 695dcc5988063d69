"""The arithmetic of the KV cache gives what engines said of real models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bubblescope.doctor.checkpoint import read_model
from bubblescope.doctor.memory import stage_needs
from bubblescope.doctor.model_facts import Weights
from bubblescope.doctor.rig import GIB
from tests.doctor.models import write_config
from tests.engines.model import qwen3

#: What of a config the KV cache depends on.
QWEN3_CODER_30B: dict[str, Any] = {
    "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128,
    "hidden_size": 2048, "max_position_embeddings": 262144,
}  # fmt: skip
GLM_4_7: dict[str, Any] = {
    "num_hidden_layers": 92, "num_attention_heads": 96, "num_key_value_heads": 8, "head_dim": 128,
    "hidden_size": 5120, "max_position_embeddings": 202752,
}  # fmt: skip


def kv_gib(folder: Path, partition: tuple[int, ...]) -> list[float]:
    """Of one longest request, of each stage."""
    facts = read_model(str(folder), {})
    assert facts.context is not None
    nothing = Weights((0,) * sum(partition), 0, 0)
    needs = stage_needs(nothing, facts.kv_values, partition, 1, facts.context, "auto")
    return [need.kv / GIB for need in needs]


@pytest.mark.parametrize(
    ("config", "partition", "said"),
    [
        # vllm#34076: "24.0 GiB KV cache is needed" for 262144 tokens, of all stages together
        (QWEN3_CODER_30B, (16, 32), 24.0),
        # vllm#32105: "71.16 GiB KV cache is needed" for 202752 tokens, of eight stages together
        (GLM_4_7, (11, 11, 11, 12, 12, 12, 12, 11), 71.16),
    ],
)
def test_what_vllm_asked_for_all_stages_together(
    config: dict[str, Any], partition: tuple[int, ...], said: float, tmp_path: Path
) -> None:
    folder = write_config(tmp_path / "m", **config)
    assert round(sum(kv_gib(folder, partition)), 2) == said


def test_what_vllm_asked_of_one_stage(tmp_path: Path) -> None:
    """vLLM 0.32.0, this model in two stages: "0.5 GiB KV cache is needed" for 131072 tokens on each."""
    folder = qwen3(tmp_path / "m", hidden_size=512)
    config = folder / "config.json"
    config.write_text(config.read_text().replace("16384", "131072"))
    assert kv_gib(folder, (4, 4)) == [0.5, 0.5]
