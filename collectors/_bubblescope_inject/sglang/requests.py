"""Requests as SGLang's front end sees them: arrival, first token, end."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from .. import UNKNOWN, open_requests

#: Times in seconds above this are of the wall clock, below of CLOCK_MONOTONIC; versions differ.
_WALL_SECONDS = 1e9


def arrived(front_end: Any, *args: Any, **kwargs: Any) -> None:
    """A tokenised request goes to the schedulers; or several, in a list."""
    told = next(
        arg for arg in (*reversed(args), *kwargs.values()) if _is_request(arg) or isinstance(arg, list)
    )
    for request in told if isinstance(told, list) else [told]:
        tokens = getattr(request, "input_ids", None)
        age_ns = _age_ns(front_end.rid_to_state.get(request.rid))
        open_requests.arrived(request.rid, len(tokens) if tokens is not None else UNKNOWN, age_ns)


def answered(front_end: Any, outputs: Any, *args: Any, **kwargs: Any) -> None:
    """Tokens of requests are there."""
    counts = getattr(outputs, "completion_tokens", None) or [0] * len(outputs.rids)
    for name, count, reason in zip(outputs.rids, counts, outputs.finished_reasons, strict=True):
        new = max(count - open_requests.output_tokens(name), 0)
        open_requests.answered(name, new, reason is not None)


def aborted(front_end: Any, abort: Any, *args: Any, **kwargs: Any) -> None:
    """A request was given up before it was run."""
    open_requests.gone(abort.rid)


def _is_request(value: Any) -> bool:
    return hasattr(value, "rid") and getattr(value, "input_ids", None) is not None


def _age_ns(state: Any) -> int | None:
    """How long ago a request came, if its state tells."""
    stats = getattr(state, "time_stats", state)
    came = getattr(stats, "created_time", None)
    if not came:
        return None
    now: Callable[[], int] = time.time_ns if came > _WALL_SECONDS else time.monotonic_ns
    return now() - int(came * 1e9)
