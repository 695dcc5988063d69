"""NVTX ranges for spans, through whichever library the engine has imported already.

docs/nsight.md says what a name and a payload are made of; a reader finds the span by its name alone.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from .layout import UNKNOWN

DOMAIN = "bubblescope"
#: Names the library of a tool that NVTX is to load.
_INJECTED = "NVTX_INJECTION64_PATH"

#: Stage, microbatch and tokens of a span.
Payload = tuple[int, int, int]


class Ranges(NamedTuple):
    """`start(name, payload)` begins a range and returns what `end` needs, on any thread."""

    start: Callable[[str, Payload], Any]
    end: Callable[[Any], object]


def named(
    kind: str, stage: int, rank: int, layers: tuple[int, int], phase: str, step: int, microbatch: int,
    tokens: int, prefix: int, peer: int,
) -> str:  # fmt: skip
    """The name of a span's range: its kind, and all that is known of it."""
    words = [kind, f"stage={stage}"]
    if rank >= 0:
        words.append(f"rank={rank}")
    if layers[0] >= 0:
        words.append(f"layers={layers[0]}-{layers[1]}")
    if phase != "unknown":
        words.append(f"phase={phase}")
    numbers = {"step": step, "microbatch": microbatch, "tokens": tokens, "prefix": prefix, "peer": peer}
    words += [f"{name}={value}" for name, value in numbers.items() if value != UNKNOWN]
    return " ".join(words)


def find() -> Ranges | None:
    """Ranges of nvtx or of torch; None where the process has neither, or nobody would see them."""
    for module, ranges in (("nvtx", _of_nvtx), ("torch", _of_torch)):
        if module in sys.modules:
            try:
                found = ranges(sys.modules[module])
            except Exception:  # torch without CUDA, or a version that differs
                continue
            # Newer nvtx takes an older tool for none, though it is attached; torch does not ask.
            if found is not None or _INJECTED not in os.environ:
                return found
    return None


def _of_nvtx(nvtx: Any) -> Ranges | None:
    domain = nvtx.get_domain(DOMAIN)
    if type(domain).__name__ == "DummyDomain":  # no tool is attached
        return None
    payload = _structured(domain) or _microbatch

    def start(name: str, told: Payload) -> Any:
        return domain.start_range(domain.get_event_attributes(message=name, payload=payload(told)))

    return Ranges(start, domain.end_range)


def _structured(domain: Any) -> Callable[[Payload], Any] | None:
    """All of a payload, with names, for a tool to show; None where numpy or nvtx cannot."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return None
    fields = numpy.dtype([(name, "i8") for name in ("stage", "microbatch", "tokens")])

    def payload(told: Payload) -> Any:
        return numpy.array(told, fields)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            domain.get_event_attributes(message=DOMAIN, payload=payload((0, 0, 0)))
        except Exception:
            return None
    return payload


def _microbatch(told: Payload) -> int:
    return told[1]


def _of_torch(torch: Any) -> Ranges:
    nvtx = torch.cuda.nvtx
    nvtx.range_end(nvtx.range_start(DOMAIN))
    return Ranges(lambda name, _: nvtx.range_start(name), nvtx.range_end)
