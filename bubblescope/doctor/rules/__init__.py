"""What engines do with which weights on which cards, as data with a source for each statement.

A rule holds for a span of versions; the spans reach only as far as sources were read. Where no rule
holds the answer is "unknown".
"""

from __future__ import annotations

from bubblescope.doctor.rules.llama_cpp import LLAMA_CPP
from bubblescope.doctor.rules.rule import Rule
from bubblescope.doctor.rules.sglang import SGLANG
from bubblescope.doctor.rules.vllm import VLLM

RULES: tuple[Rule, ...] = (*VLLM, *SGLANG, *LLAMA_CPP)

#: The newest version of each engine whose source was read.
NEWEST = {"vllm": "0.33.0", "sglang": "0.5.23", "llama.cpp": "b11434"}
