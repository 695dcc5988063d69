"""The counters of devices in the window: their extent, and how each is called and written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from bubblescope.analyzers.results import Analysis


@dataclass(frozen=True)
class Shown:
    """A counter as it is shown: how it is called, its unit, and how many of its own unit that is."""

    label: str
    unit: str
    scale: float = 1.0

    def figure(self, low: float, high: float) -> str:
        """For example "1410–1980 MHz"; one number where both look the same."""
        ends = [f"{each / self.scale:.3g}" if self.scale != 1 else f"{each:.0f}" for each in (low, high)]
        return f"{'–'.join(dict.fromkeys(ends))} {self.unit}"


#: In the order in which they are shown. What nothing travels over is left out.
SHOWN = {
    "sm_clock_mhz": Shown("SM clock", "MHz"),
    "power_w": Shown("power", "W"),
    "temperature_c": Shown("temperature", "°C"),
    "nvlink_tx_bytes_per_s": Shown("sent over NVLink", "GB/s", 1e9),
    "pcie_tx_bytes_per_s": Shown("sent over PCIe", "GB/s", 1e9),
}


def in_window(analysis: Analysis, device: int) -> Iterator[tuple[str, pd.DataFrame]]:
    """Name and samples (time_ns, value) of each counter of a device that has a number in the window."""
    begin_ns, end_ns = analysis.window_ns
    table = analysis.trace.counters
    own = table[
        (table["device"] == device)
        & (table["time_ns"] >= begin_ns)
        & (table["time_ns"] < end_ns)
        & np.isfinite(table["value"].to_numpy())
    ]
    for name, samples in own.groupby("name", observed=True, sort=True):
        yield str(name), samples[["time_ns", "value"]]


def extents(analysis: Analysis, device: int) -> dict[str, dict[str, float | int]]:
    """Of each counter of a device in the window: samples, min, mean and max, in its own unit."""
    return {
        name: {
            "samples": len(samples),
            "min": float(samples["value"].min()),
            "mean": float(samples["value"].mean()),
            "max": float(samples["value"].max()),
        }
        for name, samples in in_window(analysis, device)
    }
