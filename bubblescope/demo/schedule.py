"""Which requests there are, and how their prompts are cut into microbatches."""

from __future__ import annotations

from collections.abc import Sequence

from bubblescope.demo.channel import Microbatch

#: So many that computing with a layer's weights takes far longer than reading them anew, as it does on a GPU:
#: while a stage waits, whatever else runs on the machine takes them out of its core's caches.
CHUNK_TOKENS = 256
#: Prompt tokens of each request, one after the other. The first is a warm-up.
REQUESTS = (512, 2048, 1536, 2048)
TURN_TOKENS = 2048


def in_turns(count: int) -> tuple[int, ...]:
    """Prompt tokens of a warm-up and of `count` requests."""
    return (REQUESTS[0], *(TURN_TOKENS,) * count)


def microbatches(requests: Sequence[int]) -> int:
    """How many chunks the prompts of these sizes are cut into."""
    return sum(-(-size // CHUNK_TOKENS) for size in requests)


def next_chunk(number: int, request: int, size: int, prefix: int) -> Microbatch:
    """Microbatch `number`: what comes after the first `prefix` tokens of a request of `size` tokens."""
    left = size - prefix
    tokens = min(CHUNK_TOKENS, left)
    return Microbatch(number, request, tokens, prefix, last=tokens == left)
