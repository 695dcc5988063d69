"""A vLLM plugin for tests: makes eager pipelines run on CPUs, and slows functions down.

Copied beside metadata that makes vLLM load it; it runs in vLLM's processes.

TAMPER_SLEEPS: `module:Class.method=milliseconds`, comma separated.
"""

import functools
import os
import sys
import time

from _bubblescope_inject.imports import after_import


def register() -> None:
    if getattr(sys, "_tampered", None) == os.getpid():
        return
    sys._tampered = os.getpid()  # type: ignore[attr-defined]
    after_import({"vllm.v1.worker.cpu_model_runner": _allocate_what_the_warm_up_would})
    for sleep in filter(None, os.environ.get("TAMPER_SLEEPS", "").split(",")):
        target, _, milliseconds = sleep.partition("=")
        module, _, method = target.partition(":")
        after_import({module: functools.partial(_slow, method=method, seconds=float(milliseconds) / 1e3)})


def _allocate_what_the_warm_up_would(module):  # type: ignore[no-untyped-def]
    """Eager CPU runners skip the warm-up that allocates the buffers for received activations."""
    load = module.CPUModelRunner.load_model

    def load_model(runner, *args, **kwargs):  # type: ignore[no-untyped-def]
        load(runner, *args, **kwargs)
        from vllm.distributed.parallel_state import get_pp_group

        if not get_pp_group().is_first_rank and runner.intermediate_tensors is None:
            runner.intermediate_tensors = runner.model.make_empty_intermediate_tensors(
                batch_size=runner.max_num_tokens, dtype=runner.model_config.dtype, device=runner.device
            )

    module.CPUModelRunner.load_model = load_model


def _slow(module, method, seconds):  # type: ignore[no-untyped-def]
    owner, name = functools.reduce(getattr, method.split(".")[:-1], module), method.split(".")[-1]
    function = getattr(owner, name)

    def slow(*args, **kwargs):  # type: ignore[no-untyped-def]
        time.sleep(seconds)
        return function(*args, **kwargs)

    setattr(owner, name, slow)
