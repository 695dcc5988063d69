"""Facts of the run that vLLM's configuration tells."""

from __future__ import annotations

import sys
from typing import Any

from .. import fact

#: Our name of a fact about the model, and its names in model configs.
_MODEL = {
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


def tell(config: Any) -> None:
    """Write down what a `VllmConfig` tells."""
    fact("engine", "vllm")
    fact("engine_version", getattr(sys.modules.get("vllm"), "__version__", "unknown"))
    fact("model", _model(config.model_config))
    parallel, scheduler = config.parallel_config, config.scheduler_config
    fact("world_size", parallel.world_size)
    fact("pipeline_parallel_size", parallel.pipeline_parallel_size)
    fact("tensor_parallel_size", parallel.tensor_parallel_size)
    fact("chunk_tokens", scheduler.max_num_batched_tokens)
    fact("requests_at_once", scheduler.max_num_seqs)
    fact("asynchronous_scheduling", bool(getattr(scheduler, "async_scheduling", False)))
    fact("prefix_caching", bool(config.cache_config.enable_prefix_caching))
    fact("compilation", compilation(config))


def compilation(config: Any) -> str:
    """How the model runs: "none" (eager), or how vLLM names it."""
    settings = config.compilation_config
    mode = getattr(settings, "mode", None)
    if mode is None:
        mode = getattr(settings, "level", None)
    name = getattr(mode, "name", str(mode)).lower()
    return "none" if name in ("none", "0", "no_compilation") else name


def _model(config: Any) -> dict[str, Any]:
    inner = getattr(config, "hf_text_config", None) or config.hf_config
    known: dict[str, Any] = {
        "name": str(config.model).rstrip("/").rpartition("/")[2],
        "architecture": next(iter(getattr(config.hf_config, "architectures", None) or ()), None),
        "weights": str(config.dtype).rpartition(".")[2],
        "quantization": config.quantization,
    }
    for name, candidates in _MODEL.items():
        values = (getattr(inner, candidate, None) for candidate in candidates)
        known[name] = next((value for value in values if isinstance(value, int)), None)
    return {name: value for name, value in known.items() if value is not None}
