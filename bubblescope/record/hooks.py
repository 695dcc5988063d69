"""What a recording lacks because an engine's functions were not where they had been before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bubblescope.collectors._bubblescope_inject.hooks import FACT_PREFIX
from bubblescope.collectors._bubblescope_inject.sglang import targets as sglang
from bubblescope.collectors._bubblescope_inject.vllm import targets as vllm
from bubblescope.trace.model import Lost

WHAT = "hooks into the engine"
#: How an engine writes its name, and where it is hooked.
_ENGINES = {
    "vllm": ("vLLM", vllm.HOOKS, vllm.ESSENTIAL),
    "sglang": ("SGLang", sglang.HOOKS, sglang.ESSENTIAL),
}


def missing_hooks(facts: Mapping[str, Any]) -> Iterator[Lost]:
    """One entry per essential hook that no process of the engine could set."""
    engine = facts.get("engine")
    if engine not in _ENGINES or not any(name.startswith(FACT_PREFIX) for name in facts):
        return
    written, hooks, essential = _ENGINES[engine]
    version = facts.get("engine_version", "of an unknown version")
    for name, lacks in essential.items():
        if FACT_PREFIX + name not in facts:
            tried = ", ".join(
                f"{h.module}:{function}" for h in hooks if h.name == name for function in h.functions
            )
            yield Lost(WHAT, f"{written} {version} has no {tried}; so this does not show {lacks}", 1)
