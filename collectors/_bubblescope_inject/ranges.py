"""NVTX ranges of the same names, through whichever library the engine has imported already."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

DOMAIN = "bubblescope"


class Ranges(NamedTuple):
    """`start(kind)` begins a range and returns what `end` needs, on any thread."""

    start: Callable[[str], Any]
    end: Callable[[Any], object]


def find() -> Ranges | None:
    """Ranges of nvtx or of torch, or None where the process has neither, or neither works."""
    for module, ranges in (("nvtx", _of_nvtx), ("torch", _of_torch)):
        if module in sys.modules:
            try:
                return ranges(sys.modules[module])
            except Exception:  # torch without CUDA, or a version that differs
                continue
    return None


def _of_nvtx(nvtx: Any) -> Ranges:
    domain = nvtx.get_domain(DOMAIN)
    attributes: dict[str, Any] = {}

    def start(kind: str) -> Any:
        known = attributes.get(kind)
        if known is None:
            known = attributes[kind] = domain.get_event_attributes(message=kind)
        return domain.start_range(known)

    return Ranges(start, domain.end_range)


def _of_torch(torch: Any) -> Ranges:
    nvtx = torch.cuda.nvtx
    nvtx.range_end(nvtx.range_start(DOMAIN))
    return Ranges(nvtx.range_start, nvtx.range_end)
