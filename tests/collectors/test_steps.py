"""What a scheduler step holds: its phase, and the tokens that were there before it."""

from __future__ import annotations

import pytest

from bubblescope.collectors._bubblescope_inject.steps import contents

# Rows: new tokens, tokens computed before, tokens of the prompt.
FIRST_CHUNK = (4096, 0, 32_000)
LAST_CHUNK = (3328, 28_672, 32_000)
DECODE = (1, 32_000, 32_000)


@pytest.mark.parametrize(
    ("rows", "phase", "prefix"),
    [
        ([FIRST_CHUNK], "prefill", 0),
        ([LAST_CHUNK], "prefill", 28_672),
        ([DECODE], "decode", 32_000),
        # The mean over tokens: (4096 x 0 + 3328 x 28,672) / 7424 = 12,852.97.
        ([FIRST_CHUNK, LAST_CHUNK], "prefill", 12_852),
        # (3328 x 28,672 + 32,000) / 3329 = 28,672.9997.
        ([LAST_CHUNK, DECODE], "mixed", 28_672),
        ([DECODE, (1, 100, 10)], "decode", 16_050),
    ],
)
def test_phase_and_prefix(rows: list[tuple[int, int, int]], phase: str, prefix: int) -> None:
    assert contents(rows) == (phase, prefix)
