"""Which requests there are, and how their prompts are cut into microbatches."""

from __future__ import annotations

from bubblescope.demo.channel import Microbatch

CHUNK_TOKENS = 128
#: Prompt tokens of each request, one after the other. The first is a warm-up.
REQUESTS = (512, 2048, 1536, 2048)
#: Microbatches of all requests together.
MICROBATCHES = sum(-(-size // CHUNK_TOKENS) for size in REQUESTS)


def next_chunk(number: int, request: int, prefix: int) -> Microbatch:
    """Microbatch `number`: what comes after the first `prefix` tokens of a request."""
    left = REQUESTS[request] - prefix
    tokens = min(CHUNK_TOKENS, left)
    return Microbatch(number, request, tokens, prefix, last=tokens == left)
