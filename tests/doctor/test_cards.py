"""The published figures: plausible, complete, and each with its source."""

from __future__ import annotations

import pytest

from bubblescope.doctor.cards import CARDS, Card
from bubblescope.doctor.rig import named


def test_every_generation_and_class_of_card_is_there() -> None:
    capabilities = {card.capability for card in CARDS}
    assert {(7, 0), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (10, 3), (12, 0), (12, 1)} <= capabilities


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_a_card_has_a_source_a_link_and_units_that_fit_its_generation(card: Card) -> None:
    assert "NVIDIA" in card.source
    assert card.link
    assert 8 <= card.memory_gib <= 288
    assert 200 <= card.bandwidth_gbs <= 8000
    assert card.fp8 is None or card.capability >= (8, 9)
    assert card.fp4 is None or card.capability >= (10, 0)
    if card.half and card.fp8:
        # FP8 is twice as fast as 16 bits on every card that has it, up to rounding.
        assert 1.9 < card.fp8 / card.half < 2.1
    if card.fp8 and card.fp4:
        assert 1.9 < card.fp4 / card.fp8 < 4.1


def test_names_tell_cards_apart() -> None:
    assert len({card.name for card in CARDS}) == len(CARDS)
    for card in CARDS:
        assert named(card.name).card == card


def test_figures_of_the_rtx_5090_as_its_whitepaper_prints_them() -> None:
    # 3352 AI TOPS with sparsity are 1676 dense; FP16 with FP32 accumulation is an eighth of that.
    card = named("NVIDIA GeForce RTX 5090").card
    assert card is not None
    assert card.fp4 == 3352 / 2
    assert card.half == 209.5
    assert (card.bandwidth_gbs, card.memory_gib) == (1792, 32)
