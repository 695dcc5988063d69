"""Requests as vLLM's front end sees them: arrival, first token, end."""

from __future__ import annotations

import time
from typing import Any

from .. import request_arrived, request_ended, request_first_token

#: Requests named so are those of our own load, which knows better when they were sent and answered.
OWN = "bubblescope-"
#: An arrival time older than this is not believed.
LONGEST_NS = 60_000_000_000

#: Output tokens so far of the requests that are open.
_open: dict[str, int] = {}


def arrived(processor: Any, request: Any, *args: Any, **kwargs: Any) -> None:
    """A request goes to the engine; it came before it was tokenised."""
    name = request.request_id
    if name in _open or OWN in name:  # the former: more input of a request that is open
        return
    _open[name] = 0
    tokens = getattr(request, "prompt_token_ids", None)
    request_arrived(
        name,
        prompt_tokens=len(tokens) if tokens is not None else -1,
        at_ns=_monotonic_ns(getattr(request, "arrival_time", None)),
    )


def answered(processor: Any, outputs: Any, *args: Any, **kwargs: Any) -> None:
    """Tokens of requests are there."""
    for output in outputs:
        name, new = output.request_id, len(output.new_token_ids)
        if name not in _open:
            continue
        if new and not _open[name]:
            request_first_token(name)
        _open[name] += new
        if getattr(output, "finish_reason", None) is not None:
            request_ended(name, output_tokens=_open.pop(name))


def aborted(aborted: Any, *args: Any, **kwargs: Any) -> None:
    """Requests were given up; `aborted` are those of the engine's own names."""
    for name in aborted:
        if name in _open:
            request_ended(name, output_tokens=_open.pop(name))


def _monotonic_ns(wall_seconds: float | None) -> int | None:
    """A wall-clock time on CLOCK_MONOTONIC; None, for now, where it cannot be right."""
    if wall_seconds is None:
        return None
    age_ns = time.time_ns() - int(wall_seconds * 1e9)
    return time.monotonic_ns() - age_ns if 0 <= age_ns < LONGEST_NS else None
