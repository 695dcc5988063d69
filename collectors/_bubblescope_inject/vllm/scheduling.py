"""Scheduler steps: what is in one, and the number by which every rank knows it.

The engine's scheduler runs in one process and sends each step to the workers of all stages. What
we know of a step travels along on it, as an attribute, so all of them agree.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable
from time import monotonic_ns
from typing import Any

from .. import fact, recording, stage
from ..spans import Stage
from ..steps import Step, contents
from . import facts

#: The attribute; its value is a `Step`.
ATTRIBUTE = "_bubblescope_step"

_numbers = itertools.count(1)


def schedule(scheduler: Any, *args: Any, **kwargs: Any) -> Callable[[Any], None]:
    """The scheduler begins; the result takes what it decided."""
    begin_ns = monotonic_ns()

    def decided(output: Any) -> None:
        if output.total_num_scheduled_tokens > 0:
            number = next(_numbers)
            phase, prefix = contents(_rows(output, scheduler.requests))
            tokens = output.total_num_scheduled_tokens
            step: Step = (number, phase, tokens, prefix)
            setattr(output, ATTRIBUTE, step)
            _first_stage(scheduler.vllm_config).measured(
                "schedule", begin_ns, monotonic_ns(), clock="host", phase=phase, step=number,
                microbatch=number, tokens=tokens, prefix=prefix,
            )  # fmt: skip

    return decided


@functools.cache
def _tell_queue_size(size: int) -> None:
    fact("batches_in_flight", size)


def queue_size(core: Any) -> None:
    """Note how many batches the engine keeps in flight."""
    _tell_queue_size(int(core.batch_queue_size))


_stages: list[Stage] = []


def _first_stage(config: Any) -> Stage:
    """The stage on whose behalf the scheduler works; facts of the run are told along with it."""
    if not _stages:
        _stages.append(stage(0))
        recording.safely(facts.tell, config)  # which may be of another version
    return _stages[0]


def _rows(output: Any, requests: Any) -> Iterable[tuple[int, int, int]]:
    """Per request of a step: new tokens, tokens computed before, tokens of the prompt."""
    cached = output.scheduled_cached_reqs
    computed = {new.req_id: new.num_computed_tokens for new in output.scheduled_new_reqs}
    computed.update(zip(cached.req_ids, cached.num_computed_tokens, strict=True))
    for request, tokens in output.num_scheduled_tokens.items():
        yield tokens, computed[request], requests[request].num_prompt_tokens
