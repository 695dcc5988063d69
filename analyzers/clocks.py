"""At which clock devices computed, and what held it down, from their counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bubblescope.analyzers import intervals as iv
from bubblescope.analyzers.activity import Activity
from bubblescope.analyzers.grouping import grouped
from bubblescope.trace.model import Trace

#: With fewer samples while a device computed nothing is told of its clock.
FEWEST = 4
#: A reason that holds for less of the time is not named.
SHARE = 0.05
#: The driver's reasons for a clock that is no higher, by their bits.
_REASONS = {
    0x2: "clocks set by hand",
    0x4: "the power limit",
    0x8: "a hardware slowdown",
    0x10: "another GPU that it keeps step with",
    0x20: "heat",
    0x40: "heat",
    0x80: "the power brake",
    0x100: "the display",
}


@dataclass(frozen=True)
class Clock:
    """The SM clock of a device while it computed, in MHz.

    reasons: what held it down, with the share of those samples, the largest first.
    """

    mean_mhz: float
    best_mhz: float
    reasons: tuple[tuple[str, float], ...] = ()

    @property
    def held_down_by(self) -> str:
        """For example "held down by the power limit (80 % of the time) and heat (10 %)"; "" if by nothing."""
        named = [f"{name} ({100 * share:.0f} % of the time)" for name, share in self.reasons]
        return f"held down by {' and '.join(named)}" if named else ""


def clocks(trace: Trace, activities: Sequence[Activity]) -> Mapping[int, Clock]:
    """The clock of every device that was sampled often enough while it computed."""
    found = {}
    for (device,), part in grouped(_busy(trace, "sm_clock_mhz", activities), "device"):
        clock = part["value"].to_numpy()
        clock = clock[np.isfinite(clock) & (clock > 0)]
        if len(clock) >= FEWEST:
            found[device] = Clock(
                float(np.mean(clock)), float(np.max(clock)), _reasons(trace, device, activities)
            )
    return found


def _busy(trace: Trace, name: str, activities: Sequence[Activity]) -> pd.DataFrame:
    """The samples of a counter that were taken while their device computed."""
    samples = trace.counters[trace.counters["name"] == name]
    busy = np.zeros(len(samples), dtype=bool)
    at, device = samples["time_ns"].to_numpy(), samples["device"].to_numpy()
    for number in np.unique(device).tolist():
        own = device == number
        busy[own] = iv.covered_between(activities[number].compute, at[own], at[own] + 1) > 0
    return samples[busy]


def _reasons(trace: Trace, device: int, activities: Sequence[Activity]) -> tuple[tuple[str, float], ...]:
    samples = _busy(trace, "throttle_reasons", activities)
    values = samples.loc[samples["device"] == device, "value"].to_numpy()
    bits: NDArray[np.int64] = np.where(np.isfinite(values) & (np.abs(values) < 1 << 53), values, 0).astype(
        np.int64
    )
    masks: dict[str, int] = {}
    for bit, name in _REASONS.items():
        masks[name] = masks.get(name, 0) | bit
    shares = {name: float(np.mean(bits & mask != 0)) for name, mask in masks.items() if len(bits)}
    named = [(name, share) for name, share in shares.items() if share >= SHARE]
    return tuple(sorted(named, key=lambda each: -each[1]))
