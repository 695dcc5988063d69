"""What a recording lacks because an engine's functions were not where they had been before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bubblescope.collectors._bubblescope_inject.hooks import FACT_PREFIX
from bubblescope.collectors._bubblescope_inject.vllm.targets import ESSENTIAL, HOOKS
from bubblescope.trace.model import Lost

WHAT = "hooks into the engine"


def missing_hooks(facts: Mapping[str, Any]) -> Iterator[Lost]:
    """One entry per essential hook that no process of vLLM could set."""
    if facts.get("engine") != "vllm" or not any(name.startswith(FACT_PREFIX) for name in facts):
        return
    version = facts.get("engine_version", "of an unknown version")
    for name, lacks in ESSENTIAL.items():
        if FACT_PREFIX + name not in facts:
            tried = ", ".join(
                f"{h.module}:{function}" for h in HOOKS if h.name == name for function in h.functions
            )
            yield Lost(WHAT, f"vLLM {version} has no {tried}; so this does not show {lacks}", 1)
