"""Waits for sampled tokens in an engine whose host samples and launches for all devices, as llama.cpp does.

No message shows them: the host begins the next microbatch only once it has sampled the token of this one, so
all devices but the last wait for that one, from the end of their own part on.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from bubblescope.analyzers.pipeline import Pipeline
from bubblescope.analyzers.waits import Waits
from bubblescope.trace.frames import UNKNOWN
from bubblescope.trace.model import Trace

_ENGINE = "llama.cpp"
_ON_DEVICES = ("forward", "send")


def with_tokens(split: Waits, trace: Trace, stages: Pipeline) -> Waits:
    """The waits with those for tokens that no message brings; unchanged for other engines."""
    if trace.run.engine != _ENGINE or len(stages.stages) < 2:
        return split
    spans = trace.spans[trace.spans["microbatch"] != UNKNOWN]
    sampled = spans[spans["kind"] == "sample"].groupby("microbatch")["end_ns"].max()
    if not len(sampled):
        return split
    last = stages.devices(stages.stages[-1])[0]
    done = spans[spans["kind"].isin(_ON_DEVICES)].groupby(["device", "microbatch"])["end_ns"].max()
    computed = done.groupby("microbatch").max()
    held = _next_begin(spans, sampled.index) >= computed.reindex(sampled.index)
    rows = done[done.index.get_level_values("microbatch").isin(sampled.index[held])].reset_index()
    rows = rows[rows["device"] != last]
    until = sampled.reindex(rows["microbatch"]).to_numpy()
    begin = rows["end_ns"].to_numpy()
    found = pd.DataFrame(
        {
            "device": rows["device"].to_numpy(), "state": "starved", "begin_ns": begin, "end_ns": until,
            "awaited": last, "hint": "token", "since_ns": begin,
        }
    )  # fmt: skip
    waits = pd.concat([split.waits, found[begin < until]], ignore_index=True)
    return replace(split, waits=waits.sort_values(["device", "since_ns"], kind="stable", ignore_index=True))


def _next_begin(spans: pd.DataFrame, microbatches: pd.Index) -> pd.Series:
    """When the host, or a device, began with what comes after each microbatch; never for the last."""
    first = spans.groupby("microbatch")["begin_ns"].min()
    begins = np.append(first.to_numpy(), np.iinfo(np.int64).max)
    after = np.searchsorted(first.index.to_numpy(), microbatches.to_numpy(), side="right")
    return pd.Series(begins[after], index=microbatches)
