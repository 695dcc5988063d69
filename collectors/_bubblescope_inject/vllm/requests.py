"""Requests as vLLM's front end sees them: arrival, first token, end."""

from __future__ import annotations

import time
from typing import Any

from .. import UNKNOWN, open_requests
from ..hooks import listed


def arrived(processor: Any, request: Any, *args: Any, **kwargs: Any) -> None:
    """A request goes to the engine."""
    tokens = getattr(request, "prompt_token_ids", None)
    came = getattr(request, "arrival_time", None)
    age_ns = time.time_ns() - int(came * 1e9) if came is not None else None
    open_requests.arrived(request.request_id, len(tokens) if tokens is not None else UNKNOWN, age_ns)


def answered(processor: Any, outputs: Any, *args: Any, **kwargs: Any) -> None:
    """Tokens of requests are there."""
    for output in listed(outputs):
        ended = getattr(output, "finish_reason", None) is not None
        open_requests.answered(output.request_id, len(output.new_token_ids), ended)


def aborted(aborted: Any, *args: Any, **kwargs: Any) -> None:
    """Requests were given up; `aborted` are those of the engine's own names."""
    for name in listed(aborted):
        open_requests.gone(name)
