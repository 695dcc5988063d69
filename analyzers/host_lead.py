"""Devices that may have waited for their own host in the middle of a microbatch, unseen by stage spans.

A forward timed by events at its two ends is compute as a whole. Where the host launches its kernels no
faster than the device runs them, there are gaps between them that only kernels show. Then the
device is done as soon as the host has launched the last one: the host has no lead.
"""

from __future__ import annotations

from collections.abc import Sequence

from bubblescope.analyzers.operations import devices_with_kernels
from bubblescope.analyzers.pipeline import Pipeline
from bubblescope.trace.model import Lost, Trace

#: A lead is none if it is less than this share of the forward, and than this many nanoseconds.
NO_LEAD, NO_LEAD_NS = 0.05, 10_000_000
#: Of the time in forwards, so much has to be without a lead for it to be told.
SHARE = 0.25


def late_hosts(
    trace: Trace, stages: Pipeline, leaders: Sequence[int], window: tuple[int, int]
) -> tuple[Lost, ...]:
    """Per stage whose host was mostly no faster than its device, that gaps may be counted as compute."""
    seen = devices_with_kernels(trace)
    told = trace.spans[
        (trace.spans["kind"] == "forward")
        & (trace.spans["lead_ns"] >= 0)
        & (trace.spans["end_ns"] > window[0])
        & (trace.spans["begin_ns"] < window[1])
    ]
    doubts = []
    for device in leaders:
        own = told[told["device"] == device]
        lasted = own["end_ns"] - own["begin_ns"]
        late = own["lead_ns"] < (lasted * NO_LEAD).clip(upper=NO_LEAD_NS)
        if device in seen or lasted[late].sum() <= SHARE * lasted.sum():
            continue
        doubts.append(
            Lost(
                "gaps between kernels",
                f"in {int(late.sum())} of {len(own)} forwards of stage {stages.stage_of[device]} the device "
                "was done as soon as the host had launched the last kernel: it may have waited for others "
                "before, and that counts as compute; `record --kernels` tells how long",
            )
        )
    return tuple(doubts)
