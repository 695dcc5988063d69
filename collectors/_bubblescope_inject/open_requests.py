"""Requests that an engine's front end works on: what is told of each, once."""

from __future__ import annotations

import time

from . import UNKNOWN, request_arrived, request_ended, request_first_token

#: Requests named so are those of our own load, which knows better when they were sent and answered.
OWN = "bubblescope-"
#: An arrival time older than this is not believed.
LONGEST_NS = 60_000_000_000

#: Output tokens so far of the requests that are open.
_open: dict[str, int] = {}


def arrived(name: str, prompt_tokens: int = UNKNOWN, age_ns: int | None = None) -> None:
    """A request goes to the engine; it came `age_ns` ago, where that is known, before it was tokenised."""
    if name in _open or OWN in name:  # the former: more input of a request that is open
        return
    _open[name] = 0
    believed = age_ns is not None and 0 <= age_ns < LONGEST_NS
    at_ns = time.monotonic_ns() - age_ns if age_ns is not None and believed else None
    request_arrived(name, prompt_tokens=prompt_tokens, at_ns=at_ns)


def answered(name: str, new_tokens: int, ended: bool) -> None:
    """A request got more tokens, or none yet, and is answered or not."""
    if name not in _open:
        return
    if new_tokens and not _open[name]:
        request_first_token(name)
    _open[name] += new_tokens
    if ended:
        gone(name)


def output_tokens(name: str) -> int:
    """How many tokens an open request got so far."""
    return _open.get(name, 0)


def gone(name: str) -> None:
    """Nobody works on a request any more."""
    if name in _open:
        request_ended(name, output_tokens=_open.pop(name))
