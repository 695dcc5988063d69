"""What engines write into their profiler ranges: the phase and tokens of a batch.

vLLM: `execute_context_1(4096)_generation_0(0)`, in later versions with sums of squares inside the
brackets (`execute_8192_context_9(sq8155sk8430…)_generation_37(sq37…)`).
SGLang: `step[EXTEND bs=1 toks=4096]`, `step[DECODE bs=5]`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_VLLM = re.compile(
    r"execute_(?:\d+_)?context_(\d+)\((?:sq)?(\d+)[^)]*\)_generation_(\d+)\((?:sq)?(\d+)[^)]*\)"
)
_SGLANG = re.compile(r"step\[(\w+)(?: bs=(\d+))?(?: toks=(\d+))?[^\]]*\]")
_SGLANG_PHASES = {"EXTEND": "prefill", "DECODE": "decode", "MIXED": "mixed"}


@dataclass(frozen=True)
class Batch:
    """One scheduler step as its range names it. sequences and tokens are -1 where unnamed."""

    phase: str
    tokens: int
    sequences: int


def batch(name: str) -> Batch | None:
    """The batch that a range's name tells of; None for other names and for steps without tokens."""
    if match := _VLLM.fullmatch(name):
        context, context_tokens, generation, generation_tokens = map(int, match.groups())
        tokens = context_tokens + generation_tokens
        if not tokens:
            return None
        phase = "mixed" if context and generation else "prefill" if context else "decode"
        return Batch(phase, tokens, context + generation)
    if match := _SGLANG.fullmatch(name):
        mode, sequences, tokens_named = match.groups()
        if mode not in _SGLANG_PHASES:
            return None
        count = int(sequences) if sequences else -1
        tokens = int(tokens_named) if tokens_named else (count if mode == "DECODE" else -1)
        return Batch(_SGLANG_PHASES[mode], tokens, count)
    return None
