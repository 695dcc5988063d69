"""NVML, the driver's library that tells of its cards: opened and closed, with its errors in one form."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pynvml


class NvmlError(Exception):
    """There is no driver or no card that can be asked; says why."""


@dataclass(frozen=True)
class Card:
    """One card of this machine, in the driver's order. `handle` is what NVML's functions take."""

    handle: Any
    name: str
    capability: tuple[int, int]
    memory_bytes: int


@contextlib.contextmanager
def cards() -> Iterator[tuple[Card, ...]]:
    """All cards; they can be asked within the block. Raises NvmlError, also for what the block asks."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise NvmlError(str(error)) from None
    try:
        yield tuple(_card(index) for index in range(pynvml.nvmlDeviceGetCount()))
    except pynvml.NVMLError as error:
        raise NvmlError(str(error)) from None
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def text(value: str | bytes) -> str:
    """A text of NVML, which older versions of its binding give as bytes."""
    return value if isinstance(value, str) else value.decode(errors="replace")


def _card(index: int) -> Card:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    return Card(
        handle,
        text(pynvml.nvmlDeviceGetName(handle)),
        tuple(pynvml.nvmlDeviceGetCudaComputeCapability(handle)),
        int(pynvml.nvmlDeviceGetMemoryInfo(handle).total),
    )
