"""Facts of the run that vLLM's configuration tells."""

from __future__ import annotations

import sys
from typing import Any

from .. import fact
from ..model_facts import describe


def tell(config: Any) -> None:
    """Write down what a `VllmConfig` tells."""
    fact("engine", "vllm")
    fact("engine_version", getattr(sys.modules.get("vllm"), "__version__", "unknown"))
    fact("model", describe(config.model_config.model, config.model_config))
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
