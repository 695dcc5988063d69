"""Batches of a scheduler, and the number by which every stage knows each.

Every stage has a scheduler of its own, and all decide alike. SGLang has no name for a batch, but the
k-th that one scheduler runs is the k-th of all others: each is sent on, and received, once and in order.
So its number is k, counted from 1 since the process was started; loops that find nothing to run do not count.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from ..steps import Step, contents

#: An attribute of a batch: the `Step` for which it was last scheduled.
ATTRIBUTE = "_bubblescope_step"

_numbers = itertools.count(1)


def chosen(plan: Any) -> Any:
    """The batch in what the scheduler returned, or None."""
    return getattr(plan, "batch_to_run", plan)


def numbered(batch: Any) -> Step | None:
    """Number a batch that is to be run; None if it has no tokens, but it is counted."""
    number = next(_numbers)
    rows = list(_rows(batch))
    phase, prefix = contents(rows)
    tokens = sum(new for new, _, _ in rows)
    step = (number, phase, tokens, prefix) if tokens else None
    setattr(batch, ATTRIBUTE, step)
    return step


def step_of(batch: Any) -> Step | None:
    """The step for which a batch was last scheduled, if any."""
    step: Step | None = getattr(batch, ATTRIBUTE, None)
    return step


def _rows(batch: Any) -> Iterable[tuple[int, int, int]]:
    """Per request: new tokens, tokens computed before, tokens of the prompt."""
    mode = batch.forward_mode
    if mode.is_idle():
        return
    if mode.is_extend():  # also where requests that are being answered were mixed in
        for request, new, before in zip(batch.reqs, batch.extend_lens, batch.prefix_lens, strict=True):
            yield int(new), int(before), len(request.origin_input_ids)
    else:
        for request in batch.reqs:
            prompt = len(request.origin_input_ids)
            yield 1, max(prompt + len(request.output_ids) - 1, prompt), prompt
