"""What cards are in this machine and how they are joined, as facts about the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pynvml

from bubblescope import nvml

#: How the paths between two cards are called, as `nvidia-smi topo` does.
_PATHS = {
    pynvml.NVML_TOPOLOGY_INTERNAL: "same board",
    pynvml.NVML_TOPOLOGY_SINGLE: "PIX",
    pynvml.NVML_TOPOLOGY_MULTIPLE: "PXB",
    pynvml.NVML_TOPOLOGY_HOSTBRIDGE: "PHB",
    pynvml.NVML_TOPOLOGY_NODE: "NODE",
    pynvml.NVML_TOPOLOGY_SYSTEM: "SYS",
}
#: With more cards than this their pairs would not fit into a fact.
_MOST_PAIRED = 32


def rig(cards: Sequence[nvml.Card], environment: Mapping[str, str], hz: float) -> dict[str, Any]:
    """The cards in the driver's order, each pair of them, and how CUDA was told to number them.

    What a card does not tell is null.
    """
    return {
        "hz": hz,
        "driver": _text(_told(pynvml.nvmlSystemGetDriverVersion)),
        "order": environment.get("CUDA_DEVICE_ORDER"),
        "visible": environment.get("CUDA_VISIBLE_DEVICES"),
        "cards": [_card(card) for card in cards],
        "links": [
            _link(a, b, cards)
            for a in range(min(len(cards), _MOST_PAIRED))
            for b in range(a + 1, min(len(cards), _MOST_PAIRED))
        ],
    }


def _card(card: nvml.Card) -> dict[str, Any]:
    handle = card.handle
    limit_mw = _told(pynvml.nvmlDeviceGetEnforcedPowerLimit, handle)
    return {
        "name": card.name,
        "uuid": _text(_told(pynvml.nvmlDeviceGetUUID, handle)),
        "memory_bytes": card.memory_bytes,
        "power_limit_w": None if limit_mw is None else limit_mw / 1000,
        "sm_clock_limit_mhz": _told(pynvml.nvmlDeviceGetMaxClockInfo, handle, pynvml.NVML_CLOCK_SM),
        "pcie_generation": _told(pynvml.nvmlDeviceGetMaxPcieLinkGeneration, handle),
        "pcie_width": _told(pynvml.nvmlDeviceGetCurrPcieLinkWidth, handle),
        "nvlinks": _nvlinks(handle),
    }


def _nvlinks(handle: Any) -> int:
    """How many NVLinks of a card are up."""
    up = 0
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        state = _told(pynvml.nvmlDeviceGetNvLinkState, handle, link)
        if state is None:
            break
        up += state == pynvml.NVML_FEATURE_ENABLED
    return up


def _link(a: int, b: int, cards: Sequence[nvml.Card]) -> dict[str, Any]:
    """path: what PCIe traffic between the two has to pass. p2p: whether one can read the other's memory."""
    pair = cards[a].handle, cards[b].handle
    return {
        "cards": [a, b],
        "path": _PATHS.get(_told(pynvml.nvmlDeviceGetTopologyCommonAncestor, *pair)),
        "p2p": _peers(*pair, pynvml.NVML_P2P_CAPS_INDEX_READ),
        "nvlink": _peers(*pair, pynvml.NVML_P2P_CAPS_INDEX_NVLINK),
    }


def _peers(a: Any, b: Any, what: Any) -> bool | None:
    # A trailing comma makes a tuple of one of the binding's constants.
    index = what[0] if isinstance(what, tuple) else what
    status = _told(pynvml.nvmlDeviceGetP2PStatus, a, b, index)
    return None if status is None else bool(status == pynvml.NVML_P2P_STATUS_OK)


def _text(value: str | bytes | None) -> str | None:
    return None if value is None else nvml.text(value)


def _told(ask: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return ask(*arguments)
    except pynvml.NVMLError:
        return None
