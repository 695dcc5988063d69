"""Which card is which device, and what its samples become."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bubblescope.record.cards import sampled
from bubblescope.trace.model import Device
from bubblescope.trace.read import read_trace
from tests.record.processes import process

SAMPLE = Path(__file__).parents[2] / "sample_traces" / "recorded" / "torch_h200x2_clocks.json.gz"
MIXED = ("NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 5090", "NVIDIA GeForce RTX 4090")
TWINS = ("NVIDIA H200", "NVIDIA H200")


def facts(names: tuple[str, ...], order: str | None = None) -> dict[str, Any]:
    cards = [{"name": name, "uuid": f"GPU-{number}{number}"} for number, name in enumerate(names)]
    return {"cards": {"cards": cards, "order": order}}


def sample(card: int, time_ns: int, **values: int) -> dict[str, int]:
    return {"card": card, "time_ns": time_ns, **values}


def cards_of(devices: list[Device], names: tuple[str, ...], **rest: Any) -> dict[int, int]:
    """Which card each device's samples are of: card N has a clock of 1000 + N."""
    given = process(cards=[sample(card, 5, sm_clock=1000 + card) for card in range(len(names))])
    found = sampled([given], devices, rest.get("uuids", {}), facts(names, rest.get("order")), -1)
    clocks = found.counters[found.counters["name"] == "sm_clock_mhz"]
    return {
        int(device): int(value) - 1000
        for device, value in zip(clocks["device"], clocks["value"], strict=True)
    }


def device(ordinal: int | None, name: str | None = None) -> Device:
    return Device(ordinal=ordinal, name=name)


@pytest.mark.parametrize(
    ("devices", "names", "rest", "expected"),
    [
        # Equal cards have one order for CUDA and for NVML. What has no name may be no card.
        ([device(0, TWINS[0]), device(1, TWINS[0])], TWINS, {}, {0: 0, 1: 1}),
        ([device(1, TWINS[0]), device(0, None)], TWINS, {}, {0: 1}),
        # CUDA numbers the fastest first: its 0 is the only 5090, and the two others cannot be told apart.
        ([device(0, MIXED[1]), device(1, MIXED[0]), device(2, MIXED[0])], MIXED, {}, {0: 1}),
        # Unless it is told to go by the bus, or a UUID says it.
        ([device(0, MIXED[0]), device(1, MIXED[1])], MIXED, {"order": "PCI_BUS_ID"}, {0: 0, 1: 1}),
        ([device(1, MIXED[0]), device(0, MIXED[1])], MIXED, {"uuids": {0: "22", 1: "GPU-1-1"}}, {0: 2, 1: 1}),
        # A name that contradicts the number, and no number at all.
        ([device(0, MIXED[1])], MIXED, {"order": "PCI_BUS_ID"}, {}),
        ([device(None, TWINS[0])], TWINS, {}, {}),
        ([device(7, TWINS[0])], TWINS, {}, {}),
    ],
)  # fmt: skip
def test_a_device_has_the_samples_of_its_card_where_that_is_certain(
    devices: list[Device], names: tuple[str, ...], rest: dict[str, Any], expected: dict[int, int]
) -> None:
    assert cards_of(devices, names, **rest) == expected


def test_devices_whose_card_is_unclear_are_counted() -> None:
    given = process(cards=[sample(0, 5, sm_clock=1000)])
    found = sampled([given], [device(1, MIXED[0]), device(2, MIXED[0])], {}, facts(MIXED), -1)
    (lost,) = found.lost
    assert (lost.what, lost.count) == ("clocks, power and temperature of devices", 2)
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in lost.why


def test_what_a_card_does_not_tell_is_no_counter() -> None:
    given = process(cards=[sample(0, 5, power=400_500, pcie_tx=3, temperature=70)])
    found = sampled([given], [device(0, TWINS[0])], {}, facts(TWINS), -1).counters
    assert dict(zip(found["name"], found["value"], strict=True)) == {
        "power_w": 400.5, "pcie_tx_bytes_per_s": 3000, "temperature_c": 70,
    }  # fmt: skip


def test_traffic_over_nvlink_is_a_rate() -> None:
    # GIVEN 1000, then 4000 bytes in 1.5 s, then a count that began anew
    sent = [
        sample(0, 0, nvlink_tx=1000),
        sample(0, 1_500_000_000, nvlink_tx=4000),
        sample(0, 2 * 10**9, nvlink_tx=5),
    ]
    found = sampled([process(cards=sent)], [device(0, TWINS[0])], {}, facts(TWINS), -1).counters
    assert list(zip(found["name"], found["time_ns"], found["value"], strict=True)) == [
        ("nvlink_tx_bytes_per_s", 1_500_000_000, 2000.0)
    ]


def test_samples_from_before_the_kept_time_are_left_out() -> None:
    given = process(cards=[sample(0, 5, sm_clock=1), sample(0, 9, sm_clock=2)])
    found = sampled([given], [device(0, TWINS[0])], {}, facts(TWINS), 9).counters
    assert found["time_ns"].tolist() == [9]


@pytest.mark.parametrize("told", [None, 7, {}, {"cards": 5}, {"cards": [{"uuid": 3}, 4]}])
def test_facts_of_other_forms_are_no_facts(told: Any) -> None:
    given = process(cards=[sample(0, 5, sm_clock=1)])
    assert len(sampled([given], [device(0, "x")], {}, {"cards": told}, -1).counters) == 0


def test_a_card_whose_name_is_no_text_is_a_card_without_a_name() -> None:
    given = process(cards=[sample(0, 5, sm_clock=1000)])
    told = {"cards": {"cards": [{"name": [], "uuid": "GPU-00"}, {"name": {}}]}}
    (value,) = sampled([given], [device(0, TWINS[0])], {0: "GPU-00"}, told, -1).counters["value"]
    assert value == 1000


def test_what_two_real_cards_sent_over_nvlink_is_what_their_program_sent() -> None:
    """133 sends of four copies of 8192 x 8192 numbers of two bytes, and three copies before."""
    trace = read_trace(SAMPLE)
    size = 8192 * 8192 * 2
    assert trace.spans.loc[trace.spans["kind"] == "send", "bytes"].tolist() == [size] * 133
    for device, name in ((0, "nvlink_tx_bytes_per_s"), (1, "nvlink_rx_bytes_per_s")):
        of_device = trace.counters[trace.counters["device"] == device]
        told, every = (of_device[of_device["name"] == each] for each in (name, "sm_clock_mhz"))
        # A rate is that of the time since the sample before.
        seconds = every["time_ns"].diff().iloc[1:].to_numpy() / 1e9
        assert float((told["value"].to_numpy() * seconds).sum()) == pytest.approx(
            (133 * 4 + 3) * size, rel=1e-6
        )
