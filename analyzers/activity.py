"""What each device did, as sets of time: compute, and any work at all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bubblescope.analyzers import intervals as iv
from bubblescope.trace.model import Trace

#: Stage spans that are compute where the device's own timeline was not recorded.
COMPUTE_SPANS = ("forward", "embed", "head", "sample")
#: What only the host is busy with, however the devices' times are known.
HOST_SPANS = ("schedule", "save", "restore")
_WORK = ("kernel", "copy", "memset")


@dataclass(frozen=True)
class Activity:
    """One device. `kernel_begin` is sorted; `kernel_end_by_begin` goes with it.

    compute: kernels that are not communication, on any stream (or compute spans).
    work: the same with communication, copies and memsets: when the device was not quiet.
    """

    compute: iv.Intervals
    work: iv.Intervals
    kernel_begin: NDArray[np.int64]
    kernel_end_by_begin: NDArray[np.int64]

    @property
    def first(self) -> int:
        """Begin of the first work; only where there is work."""
        return int(self.work[0, 0])

    @property
    def last(self) -> int:
        """End of the last work; only where there is work."""
        return int(self.work[-1, 1])


def activities(trace: Trace) -> list[Activity]:
    """One entry per device, in the order of `Run.devices`."""
    slices = trace.slices[trace.slices["category"].isin(_WORK)]
    device = trace.tracks["device"].to_numpy()[slices["track"].to_numpy()]
    kernel = ((slices["category"] == "kernel") & (slices["operation"] == "")).to_numpy()
    begin, end = slices["begin_ns"].to_numpy(), slices["end_ns"].to_numpy()
    found = []
    for number in range(len(trace.run.devices)):
        own = device == number
        if own.any():
            found.append(_activity(begin[own & kernel], end[own & kernel], begin[own], end[own]))
        else:
            found.append(_from_spans(trace.spans[trace.spans["device"] == number]))
    return found


def on_device(spans: pd.DataFrame) -> pd.DataFrame:
    """Of the spans of one or more devices those that are the device's own work.

    Where some of a device's spans are on its own clock, those on the host's are what the host does beside it,
    ahead of it: they keep the host busy and not the device.
    """
    timed = spans.loc[spans["clock"] == "device", "device"].unique()
    return spans[(spans["clock"] == "device") | ~spans["device"].isin(timed)]


def state_copies(spans: pd.DataFrame) -> iv.Intervals:
    """When the state of sequences was brought from the devices into host memory, or back."""
    copies = spans[spans["kind"].isin(("save", "restore"))]
    return iv.union(copies["begin_ns"].to_numpy(), copies["end_ns"].to_numpy())


def _from_spans(spans: pd.DataFrame) -> Activity:
    spans = on_device(spans)
    compute = spans[spans["kind"].isin(COMPUTE_SPANS)]
    work = spans[~spans["kind"].isin(HOST_SPANS)]
    return _activity(*(part[side].to_numpy() for part in (compute, work) for side in ("begin_ns", "end_ns")))


def _activity(
    begin: NDArray[np.int64], end: NDArray[np.int64], any_begin: NDArray[np.int64], any_end: NDArray[np.int64]
) -> Activity:
    order = np.argsort(begin, kind="stable")
    return Activity(iv.union(begin, end), iv.union(any_begin, any_end), begin[order], end[order])
