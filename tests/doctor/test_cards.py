"""The published figures: plausible, complete, and each with its source."""

from __future__ import annotations

from dataclasses import fields

import pytest

from bubblescope.doctor.cards import CARDS, Card
from bubblescope.doctor.rig import named

EACH = pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
#: 16-bit operations for each byte that memory delivers meanwhile: by capability, and whether it is a GeForce,
#: those of the card that has most of them, by hand: a V100 does 125 TFLOPS at 900 GB/s, which is 139.
MOST_PER_BYTE = {
    ((7, 0), False): 139,  # V100
    ((7, 5), False): 204,  # T4, 65 at 320
    ((8, 0), False): 201,  # A100 40GB, 312 at 1555
    ((8, 6), False): 216,  # A40, 149.7 at 696
    ((8, 6), True): 80,  # RTX 3090 Ti, 79.9 at 1008
    ((8, 9), False): 454,  # RTX 5000 Ada, 522.2 in FP8 at 576
    ((8, 9), True): 164,  # RTX 4090, 165.2 at 1008
    ((9, 0), False): 372,  # H100 PCIe, 756.5 at 2039
    ((10, 0), False): 293,  # B200, 2250 at 7700
    ((10, 3), False): 293,  # B300, 2250 at 7700
    ((12, 0), False): 282,  # RTX PRO 6000, 503.8 at 1792
    ((12, 0), True): 118,  # RTX 5080, 112.6 at 960
}
GEFORCE = ("RTX 20", "RTX 30", "RTX 40", "RTX 50")


def is_geforce(card: Card) -> bool:
    return card.name.startswith(GEFORCE) and not card.name.endswith("Ada")


def card_of(name: str) -> Card:
    found = named(name).card
    assert found is not None
    return found


def test_every_generation_and_class_of_card_is_there() -> None:
    capabilities = {card.capability for card in CARDS}
    assert {(7, 0), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (10, 3), (12, 0), (12, 1)} <= capabilities


@EACH
def test_a_card_has_a_source_and_plausible_memory(card: Card) -> None:
    assert card.source.startswith("NVIDIA ")
    assert 8 <= card.memory_gib <= 288
    assert card.bandwidth_gbs is None or 200 <= card.bandwidth_gbs <= 8000


@EACH
def test_what_is_not_confirmed_is_not_there_and_is_named(card: Card) -> None:
    optional = {field.name for field in fields(Card) if "None" in str(field.type)}
    assert set(card.unconfirmed) <= optional
    assert all(getattr(card, name) is None for name in card.unconfirmed)
    for name in ("bandwidth_gbs", "link"):  # every card has these
        assert (getattr(card, name) is None) == (name in card.unconfirmed)


@EACH
def test_a_card_has_no_throughput_for_which_its_generation_has_no_units(card: Card) -> None:
    assert card.fp8 is None or card.capability >= (8, 9)
    assert card.fp4 is None or card.capability >= (10, 0)


@EACH
def test_a_narrower_format_is_as_much_faster_as_the_units_make_it(card: Card) -> None:
    # FP8 is twice as fast as 16 bits and INT8 as FP8; on GeForce, which halves with FP32, INT8 is twice FP8.
    int8_of_half = 4 if is_geforce(card) else 2
    for wide, narrow, ratio in (
        (card.half, card.fp8, 2),
        (card.half, card.int8, int8_of_half),
        (card.fp8, card.int8, int8_of_half / 2),
    ):
        if wide and narrow:
            assert narrow / wide == pytest.approx(ratio, rel=0.015)
    if card.fp8 and card.fp4:
        # Blackwell Ultra has three times as many units for FP4; GeForce does not halve FP4.
        ratio = 4 if is_geforce(card) else 3 if card.capability == (10, 3) else 2
        assert card.fp4 / card.fp8 == pytest.approx(ratio, rel=0.015)


@EACH
def test_no_throughput_is_out_of_proportion_to_memory_as_one_with_sparsity_would_be(card: Card) -> None:
    for value in filter(None, (card.half, card.fp8 and card.fp8 / 2)):
        assert card.bandwidth_gbs is not None
        assert value * 1000 / card.bandwidth_gbs <= MOST_PER_BYTE[card.capability, is_geforce(card)]


def test_names_tell_cards_apart() -> None:
    assert len({card.name for card in CARDS}) == len(CARDS)
    for card in CARDS:
        assert named(card.name).card == card


def test_figures_of_the_rtx_5090_as_its_whitepaper_prints_them() -> None:
    # 3352 AI TOPS with sparsity are 1676 dense; FP16 with FP32 accumulation is an eighth of that.
    card = card_of("NVIDIA GeForce RTX 5090")
    assert card.fp4 == 3352 / 2
    assert card.half == 209.5
    assert (card.bandwidth_gbs, card.memory_gib) == (1792, 32)


def test_figures_that_data_sheets_print_with_sparsity_are_halved() -> None:
    assert card_of("NVIDIA RTX 6000 Ada Generation").fp8 == 1457 / 2
    assert card_of("NVIDIA RTX 5000 Ada Generation").fp8 == 1044.4 / 2
    assert card_of("NVIDIA RTX A4000").half == 153.4 / 2
    # 18, 9 and 4.5 PFLOPS, of one GPU of an HGX B200, whose memory gives 7.7 TB/s of the platform's 62.
    b200 = card_of("NVIDIA B200")
    assert (b200.fp4, b200.fp8, b200.half) == (18_000 / 2, 9_000 / 2, 4_500 / 2)
    assert b200.bandwidth_gbs == 7700


def test_figures_that_are_printed_dense_are_not_halved() -> None:
    # The data sheets of the L40 and the A40 print both, "362 | 724" and "149.7 | 299.4".
    assert (card_of("NVIDIA L40").fp8, card_of("NVIDIA A40").half) == (362, 149.7)
    assert card_of("Tesla V100-SXM2-32GB").half == 125


def test_a_super_that_was_not_found_says_so() -> None:
    card = card_of("NVIDIA GeForce RTX 4070 SUPER")
    assert (card.int8, card.unconfirmed) == (None, ("int8",))
