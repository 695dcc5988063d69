"""Facts of the run that SGLang's settings tell."""

from __future__ import annotations

import sys
from typing import Any

from .. import fact
from ..model_facts import describe

#: Our name of a fact, and that of the setting.
_SETTINGS = {
    "chunk_tokens": "chunked_prefill_size",
    "requests_at_once": "max_running_requests",
    "largest_microbatch": "pp_max_micro_batch_size",
    "dynamic_chunking": "enable_dynamic_chunking",
    "asynchronous_batch_depth": "pp_async_batch_depth",
    "pipeline_parallel_size": "pp_size",
    "tensor_parallel_size": "tp_size",
}
_PREFILL_GRAPHS = ("prefill_cuda_graph_runner", "piecewise_cuda_graph_runner")


def tell(scheduler: Any) -> None:
    """Write down what a scheduler knows."""
    settings = scheduler.server_args
    fact("engine", "sglang")
    fact("engine_version", getattr(sys.modules.get("sglang"), "__version__", "unknown"))
    fact("model", describe(settings.model_path, scheduler.model_config))
    fact("world_size", settings.pp_size * settings.tp_size)
    for name, setting in _SETTINGS.items():
        if (value := getattr(settings, setting, None)) is not None:
            fact(name, value)
    fact("prefix_caching", not settings.disable_radix_cache)
    fact("batches_in_flight", getattr(scheduler, "pp_loop_size", 1))
    runner = scheduler.tp_worker.model_runner
    fact("attention_backend", _prefill_attention(settings))
    fact("compilation", compilation(runner))


def compilation(runner: Any) -> str:
    """How prefill runs: "none" (eager), or how SGLang names what runs it instead."""
    if getattr(runner.server_args, "enable_torch_compile", False):
        return "torch_compile"
    graphs = next((graph for name in _PREFILL_GRAPHS if (graph := getattr(runner, name, None))), None)
    name = type(graph).__name__
    return "none" if graphs is None or name == "EagerRunner" else name


def _prefill_attention(settings: Any) -> str | None:
    own = getattr(settings, "prefill_attention_backend", None)
    return own or getattr(settings, "attention_backend", None)
