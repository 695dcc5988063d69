"""Facts about a model, as the config tells them that engines load with it."""

from __future__ import annotations

from typing import Any

#: Our name of a fact, and its names in configs.
_NAMES = {
    "layers": ("num_hidden_layers", "n_layer"),
    "hidden_size": ("hidden_size", "n_embd"),
    "intermediate_size": ("intermediate_size",),
    "heads": ("num_attention_heads", "n_head"),
    "kv_heads": ("num_key_value_heads",),
    "head_size": ("head_dim",),
    "vocabulary": ("vocab_size",),
    "experts": ("num_experts", "n_routed_experts", "num_local_experts"),
    "experts_per_token": ("num_experts_per_tok",),
}


def describe(path: str, config: Any) -> dict[str, Any]:
    """The fact "model".

    path: where the model is; its last part becomes its name.
    config: an engine's own, with `hf_config`, `dtype` and `quantization`.
    """
    inner = getattr(config, "hf_text_config", None) or config.hf_config
    known: dict[str, Any] = {
        "name": str(path).rstrip("/").rpartition("/")[2],
        "architecture": next(iter(getattr(config.hf_config, "architectures", None) or ()), None),
        "weights": str(config.dtype).rpartition(".")[2],
        "quantization": config.quantization,
    }
    for name, candidates in _NAMES.items():
        values = (getattr(inner, candidate, None) for candidate in candidates)
        known[name] = next((value for value in values if isinstance(value, int)), None)
    return {name: value for name, value in known.items() if value is not None}
