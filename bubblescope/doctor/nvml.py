"""The cards of this machine, as the driver tells them."""

from __future__ import annotations

from collections.abc import Mapping

from bubblescope import nvml
from bubblescope.doctor.rig import Part, merged, named
from bubblescope.errors import UsageError


def local_rig(environment: Mapping[str, str]) -> tuple[Part, ...]:
    """The cards that a program started with `environment` sees, in its order.

    UsageError where there is no driver or no card.
    """
    try:
        with nvml.cards() as found:
            parts = [named(card.name, card.capability, card.memory_bytes) for card in found]
    except nvml.NvmlError as error:
        raise UsageError(_nothing(str(error))) from None
    seen = visible(len(parts), environment.get("CUDA_VISIBLE_DEVICES"))
    if not seen:
        raise UsageError(_nothing("it shows no card"))
    return merged(parts[index] for index in seen)


def visible(count: int, setting: str | None) -> tuple[int, ...]:
    """The device numbers that CUDA_VISIBLE_DEVICES leaves, in its order.

    CUDA stops reading at the first entry that is no device. Names (UUIDs) are not resolved: all
    cards are then looked at.
    """
    if setting is None or "-" in setting.lstrip("-"):
        return tuple(range(count))
    out: list[int] = []
    for entry in setting.split(","):
        if not entry.strip().isdecimal() or int(entry) >= count:
            break
        out.append(int(entry))
    return tuple(out)


def _nothing(why: str) -> str:
    form = '--devices "RTX 5090 x2, RTX 4090 48GB"'
    return f"no NVIDIA card can be asked here (NVML: {why}); name the rig: {form}"
