"""llama.cpp's rule for which device holds which layer, by `--tensor-split`, and how to ask for a split.

The output layer counts as one more, after the last of the model. Read in src/llama-model.cpp of b11434,
whose arithmetic is in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np


def devices_of_layers(layers: int, gpu_layers: int, shares: Sequence[float]) -> tuple[int | None, ...]:
    """(layers + 1,): the device of each layer, the output layer last; None: it stays on the CPU.

    gpu_layers: as `--n-gpu-layers` has it; negative means all. shares: of each device, at least one > 0.
    """
    on_devices = layers + 1 if gpu_layers < 0 else min(gpu_layers, layers + 1)
    first = layers + 1 - on_devices
    sums = np.fromiter(accumulate(map(np.float32, shares), np.add), dtype=np.float32)
    bounds = sums / sums[-1]
    places = np.arange(on_devices, dtype=np.float32) / np.float32(on_devices)
    return (*(None,) * first, *map(int, np.searchsorted(bounds, places, side="right")))


def held_layers(layers: int, gpu_layers: int, shares: Sequence[float]) -> tuple[int, ...]:
    """(devices,): how many layers each device holds, the output layer not counted."""
    holders = devices_of_layers(layers, gpu_layers, shares)[:-1]
    return tuple(holders.count(device) for device in range(len(shares)))


def shares_for(layers: Sequence[int]) -> tuple[int, ...]:
    """The shares that give each device exactly so many layers, and the last one the output layer too.

    Whole numbers that sum to all layers put the bounds exactly on layers, and the rule rounds none of them.
    """
    return (*layers[:-1], layers[-1] + 1)
