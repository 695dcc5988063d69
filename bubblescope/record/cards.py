"""Samples of cards, brought to the devices of a trace as counters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from bubblescope.record.cards_fact import CARDS_FACT
from bubblescope.record.spool import Process, Slots
from bubblescope.trace import frames
from bubblescope.trace.frames import COUNTERS, UNKNOWN
from bubblescope.trace.model import Device, Lost

_WHAT = "clocks, power and temperature"
_KB, _MW = 1000, 1000
#: Fields of a slot as counters, with what one unit of the field is in the counter's.
_COUNTERS = {
    "sm_clock": ("sm_clock_mhz", 1.0),
    "memory_clock": ("memory_clock_mhz", 1.0),
    "power": ("power_w", 1 / _MW),
    "temperature": ("temperature_c", 1.0),
    "reasons": ("throttle_reasons", 1.0),
    "memory": ("memory_used_bytes", 1.0),
    "utilization": ("utilization_percent", 1.0),
    "pcie_tx": ("pcie_tx_bytes_per_s", _KB),
    "pcie_rx": ("pcie_rx_bytes_per_s", _KB),
}
#: Fields that count up, as rates.
_RATES = {"nvlink_tx": "nvlink_tx_bytes_per_s", "nvlink_rx": "nvlink_rx_bytes_per_s"}


@dataclass(frozen=True)
class Sampled:
    """Counters of the devices whose card is known, and why some are missing."""

    counters: pd.DataFrame
    lost: tuple[Lost, ...] = ()


def sampled(
    processes: Sequence[Process],
    devices: Sequence[Device],
    uuids: Mapping[int, str],
    facts: Mapping[str, Any],
    begin_ns: int,
) -> Sampled:
    """The counters of all devices from `begin_ns` on, in order of time.

    uuids: of the devices that told it. facts: about the run, with those of the sampler.
    """
    nothing = frames.empty(COUNTERS)
    told = facts.get(CARDS_FACT)
    if not isinstance(told, dict) or not any(map(_is_card, devices)):
        return Sampled(nothing)
    if why_not := told.get("why_not"):
        why = str(why_not).removeprefix("NVML ")
        return Sampled(nothing, (Lost(_WHAT, f"no card could be asked for them (NVML: {why})"),))
    cards = [card for card in _list(told.get("cards")) if isinstance(card, dict)]
    card_of = _cards_of(cards, devices, uuids, in_bus_order=told.get("order") == "PCI_BUS_ID")
    slots = np.concatenate([process.cards for process in processes])
    slots = slots[slots["time_ns"] >= begin_ns]
    tables = [
        table for device, card in card_of.items() for table in _of_card(slots[slots["card"] == card], device)
    ]
    unclear = len([number for number, each in enumerate(devices) if _is_card(each) and number not in card_of])
    why = "which of the machine's cards they are cannot be told; CUDA_DEVICE_ORDER=PCI_BUS_ID makes it clear"
    lost = (Lost(f"{_WHAT} of devices", why, unclear),) if unclear else ()
    if not tables:
        return Sampled(nothing, lost)
    named = pd.concat([table.astype({"name": object}) for table in tables], ignore_index=True)
    joined = named.sort_values("time_ns", kind="stable", ignore_index=True)
    return Sampled(frames.checked(COUNTERS, joined), lost)


def together(told: pd.DataFrame, of_cards: pd.DataFrame) -> pd.DataFrame:
    """What collectors told and what cards were sampled for, in order of time."""
    if not len(told) or not len(of_cards):
        return told if len(told) else of_cards
    joined = pd.concat([each.astype({"name": object}) for each in (told, of_cards)], ignore_index=True)
    return frames.checked(COUNTERS, joined.sort_values("time_ns", kind="stable", ignore_index=True))


def _cards_of(
    cards: Sequence[Mapping[str, Any]],
    devices: Sequence[Device],
    uuids: Mapping[int, str],
    in_bus_order: bool,
) -> dict[int, int]:
    """For each device the number of its card, where that is certain.

    CUDA numbers cards by speed unless told otherwise, NVML by their place on the bus; equal cards have
    one order in both.
    """
    by_uuid = {
        _bare(card["uuid"]): number for number, card in enumerate(cards) if isinstance(card.get("uuid"), str)
    }
    names = [name if isinstance(name := card.get("name"), str) else None for card in cards]
    same_order = in_bus_order or len(set(names)) == 1
    found = {}
    for number, device in enumerate(devices):
        alike = [card for card, name in enumerate(names) if name == device.name]
        uuid = _bare(uuids.get(number, ""))
        if uuid and uuid in by_uuid:
            found[number] = by_uuid[uuid]
        elif same_order and device.ordinal in alike:
            found[number] = device.ordinal
        elif not same_order and len(alike) == 1:
            found[number] = alike[0]
    return found


def _is_card(device: Device) -> bool:
    """Whether a device is known to be a card, of whatever make."""
    return device.name not in (None, "CPU")


def _bare(uuid: str) -> str:
    return re.sub("^gpu|[^0-9a-f]", "", uuid.lower())


def _of_card(slots: Slots, device: int) -> Iterator[pd.DataFrame]:
    slots = slots[np.argsort(slots["time_ns"], kind="stable")]
    for field, (name, unit) in _COUNTERS.items():
        known = slots[slots[field] != UNKNOWN]
        yield _table(device, name, known["time_ns"], known[field] * float(unit))
    for field, name in _RATES.items():
        known = slots[slots[field] != UNKNOWN]
        seconds = np.diff(known["time_ns"]) / 1e9
        moved = np.diff(known[field]).astype(np.float64)
        counted = (moved >= 0) & (seconds > 0)
        yield _table(device, name, known["time_ns"][1:][counted], moved[counted] / seconds[counted])


def _table(device: int, name: str, time_ns: npt.NDArray[Any], value: npt.NDArray[np.float64]) -> pd.DataFrame:
    return frames.table(
        COUNTERS,
        {
            "device": [device] * len(time_ns),
            "name": [name] * len(time_ns),
            "time_ns": time_ns,
            "value": value,
        },
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
