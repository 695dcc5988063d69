"""The cards of this machine, as the driver tells them."""

from __future__ import annotations

from collections.abc import Mapping

import pynvml

from bubblescope.doctor.rig import Part, merged, named
from bubblescope.errors import UsageError


def local_rig(environment: Mapping[str, str]) -> tuple[Part, ...]:
    """The cards that a program started with `environment` sees, in its order.

    UsageError where there is no driver or no card.
    """
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise UsageError(_nothing(str(error))) from None
    try:
        cards = [_part(index) for index in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError as error:
        raise UsageError(_nothing(str(error))) from None
    finally:
        pynvml.nvmlShutdown()
    seen = visible(len(cards), environment.get("CUDA_VISIBLE_DEVICES"))
    if not seen:
        raise UsageError(_nothing("it shows no card"))
    return merged(cards[index] for index in seen)


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


def _part(index: int) -> Part:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    name = pynvml.nvmlDeviceGetName(handle)
    major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
    memory = int(pynvml.nvmlDeviceGetMemoryInfo(handle).total)
    return named(name if isinstance(name, str) else name.decode(errors="replace"), (major, minor), memory)


def _nothing(why: str) -> str:
    form = '--devices "RTX 5090 x2, RTX 4090 48GB"'
    return f"no NVIDIA card can be asked here (NVML: {why}); name the rig: {form}"
