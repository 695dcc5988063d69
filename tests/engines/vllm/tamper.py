"""A vLLM plugin for tests: makes eager pipelines run on CPUs, and slows functions down.

Copied beside metadata that makes vLLM load it; it runs in vLLM's processes.

TAMPER_SLEEPS: `module:Class.method=milliseconds@request@stage`, comma separated: the function sleeps for
so long while it works for a request with that in its name; on one stage only, if one is given.
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
    after_import(
        {"vllm.v1.core.sched.scheduler": _look_at_schedules, "vllm.v1.worker.gpu_worker": _look_at_steps}
    )
    for sleep in filter(None, os.environ.get("TAMPER_SLEEPS", "").split(",")):
        target, _, how = sleep.partition("=")
        module, _, method = target.partition(":")
        milliseconds, request, *stage = how.split("@")
        slow = functools.partial(
            _slow, method=method, seconds=float(milliseconds) / 1e3, request=request, stage=stage
        )
        after_import({module: slow})


#: Names of the requests that this process works for.
_requests: list[str] = []


def _look_at_schedules(module):  # type: ignore[no-untyped-def]
    _before(module.Scheduler, "schedule", lambda scheduler, *_: scheduler.requests)


def _look_at_steps(module):  # type: ignore[no-untyped-def]
    _before(module.Worker, "execute_model", lambda worker, step, *_: step.num_scheduled_tokens)


def _before(owner, name, requests):  # type: ignore[no-untyped-def]
    function = getattr(owner, name)

    def looked_at(*args, **kwargs):  # type: ignore[no-untyped-def]
        _requests[:] = requests(*args)
        return function(*args, **kwargs)

    setattr(owner, name, looked_at)


def _is_on(stage):  # type: ignore[no-untyped-def]
    from vllm.distributed.parallel_state import get_pp_group

    return not stage or get_pp_group().rank_in_group == int(stage[0])


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


def _slow(module, method, seconds, request, stage):  # type: ignore[no-untyped-def]
    owner, name = functools.reduce(getattr, method.split(".")[:-1], module), method.split(".")[-1]
    function = getattr(owner, name)

    def slow(*args, **kwargs):  # type: ignore[no-untyped-def]
        if any(request in name for name in _requests) and _is_on(stage):
            time.sleep(seconds)
        return function(*args, **kwargs)

    setattr(owner, name, slow)
