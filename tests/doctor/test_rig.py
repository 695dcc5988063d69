"""A rig from the command line, from product names, and from the driver's."""

from __future__ import annotations

import pytest

from bubblescope.doctor.nvml import visible
from bubblescope.doctor.rig import GIB, gib, named, parse_devices, spread
from bubblescope.errors import UsageError


def test_names_counts_and_sizes() -> None:
    rig = parse_devices("RTX PRO 6000, RTX PRO 5000, RTX 5090 x2, RTX 4090 48GB x3")
    assert [(part.device, part.count, part.capability) for part in rig] == [
        ("RTX PRO 6000 96GB", 1, (12, 0)),
        ("RTX PRO 5000 48GB", 1, (12, 0)),
        ("RTX 5090 32GB", 2, (12, 0)),
        ("RTX 4090 48GB", 3, (8, 9)),
    ]
    assert [part.memory_bytes for part in rig] == [96 * GIB, 48 * GIB, 32 * GIB, 48 * GIB]


@pytest.mark.parametrize(
    "text", ["RTX 5090 x2", "2x RTX 5090", "5090 ×2", "rtx5090 x2", "RTX 5090, RTX 5090"]
)
def test_ways_to_write_two_of_them(text: str) -> None:
    (part,) = parse_devices(text)
    assert (part.device, part.count) == ("RTX 5090 32GB", 2)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("NVIDIA GeForce RTX 4090", "RTX 4090 24GB"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "RTX PRO 6000 96GB"),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "RTX PRO 6000 Max-Q 96GB"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000 Server 96GB"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada 48GB"),
        ("NVIDIA A100-SXM4-80GB", "A100 80GB"),
        ("NVIDIA A100-SXM4-40GB", "A100 40GB"),
        ("NVIDIA A100 80GB PCIe", "A100 PCIe 80GB"),
        ("NVIDIA H100 80GB HBM3", "H100 80GB"),
        ("NVIDIA H200", "H200 141GB"),
        ("Tesla V100-SXM2-32GB", "V100 32GB"),
        ("NVIDIA L40S", "L40S 48GB"),
    ],
)
def test_the_names_that_the_driver_gives(name: str, shown: str) -> None:
    assert named(name).device == shown


@pytest.mark.parametrize(
    "name", ["RTX 6000", "RTX 4090 Laptop GPU", "RTX 5090 D", "MI300X", "RX 7900 XTX", "Arc B580", "4090 Ti"]
)
def test_a_name_that_is_not_exactly_a_known_card_is_not_guessed_at(name: str) -> None:
    part = named(name)
    assert (part.card, part.capability, part.device) == (None, None, name)


def test_what_the_driver_tells_wins_over_what_is_published() -> None:
    part = named("NVIDIA GeForce RTX 4090", (8, 9), 51_000_000_000)
    assert part.memory_bytes == 51_000_000_000
    unknown = named("NVIDIA RTX 9999", (13, 0), 10 * GIB)
    assert (unknown.capability, unknown.memory_bytes) == ((13, 0), 10 * GIB)


@pytest.mark.parametrize("text", ["", "RTX 5090,,RTX 4090", "RTX 5090 x0", "RTX 5090 x99999", "5090 x2000"])
def test_what_is_no_rig_is_one_line(text: str) -> None:
    with pytest.raises(UsageError, match="--devices: "):
        parse_devices(text)


def test_positions_are_the_engines_numbers() -> None:
    rig = spread(parse_devices("RTX 5090 x2, RTX 4090"))
    assert [(part.device, part.count) for part in rig] == [
        ("RTX 5090 32GB", 1),
        ("RTX 5090 32GB", 1),
        ("RTX 4090 24GB", 1),
    ]


@pytest.mark.parametrize(
    ("setting", "seen"),
    [
        (None, (0, 1, 2)),
        ("2,0", (2, 0)),
        ("", ()),
        ("1,7,0", (1,)),
        ("-1", ()),
        ("GPU-3f2a, GPU-77", (0, 1, 2)),
    ],
)
def test_cuda_visible_devices_chooses_and_orders(setting: str | None, seen: tuple[int, ...]) -> None:
    assert visible(3, setting) == seen


def test_sizes_for_people() -> None:
    assert gib(34_359_738_368) == "32.0 GiB"
