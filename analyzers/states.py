"""What each device did with every nanosecond of the window.

Each nanosecond has exactly one state, the first that holds of: compute, transfer, idle, fill or
drain, starved, blocked, host. They sum to the window to the nanosecond.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bubblescope.analyzers import intervals as iv
from bubblescope.analyzers.activity import Activity
from bubblescope.analyzers.results import STATES, TIMELINE
from bubblescope.analyzers.waits import Waits
from bubblescope.trace import frames


def timeline(
    activities: Sequence[Activity],
    waits: Waits,
    bursts: pd.DataFrame,
    sends: pd.DataFrame,
    window: tuple[int, int],
    copies: iv.Intervals,
) -> pd.DataFrame:
    """The states of every device that did any work (schema TIMELINE).

    `sends` are the sends of activations: drain begins after a device's last one. While the host `copies`
    the state of sequences and no device computes, none waits for the pipeline to fill or drain.
    """
    whole = iv.span(*window)
    open_time = bursts[["begin_ns", "end_ns"]].to_numpy().astype(np.int64)
    parts = []
    for device, activity in enumerate(activities):
        if not len(activity.work):
            continue
        own = sends[(sends["device"] == device) & (sends["kind"] == "send")]
        fill, drain = _edges(activity.compute, own, open_time)
        waiting = waits.waits[waits.waits["device"] == device]
        held = {
            "compute": activity.compute,
            "transfer": _set(waits.transfers[waits.transfers["device"] == device]),
            "idle": iv.subtract(whole, open_time),
            "fill": iv.subtract(fill, copies),
            "drain": iv.subtract(drain, copies),
            "starved": _set(waiting[waiting["state"] == "starved"]),
            "blocked": _set(waiting[waiting["state"] == "blocked"]),
            "host": whole,
        }
        parts.append(_one_device(device, held, whole))
    if not parts:
        return frames.empty(TIMELINE)
    return frames.checked(TIMELINE, pd.concat(parts, ignore_index=True))


def totals(timeline: pd.DataFrame, device: int) -> dict[str, int]:
    """Nanoseconds per state of one device; every state is there."""
    own = timeline[timeline["device"] == device]
    sums = (own["end_ns"] - own["begin_ns"]).groupby(own["state"].astype(object)).sum()
    return {state: int(sums.get(state, 0)) for state in STATES}


def _one_device(device: int, held: dict[str, iv.Intervals], whole: iv.Intervals) -> pd.DataFrame:
    rest, parts = whole, []
    for state in STATES:
        taken = iv.intersect(rest, held[state])
        rest = iv.subtract(rest, held[state])
        parts.append(pd.DataFrame({"begin_ns": taken[:, 0], "end_ns": taken[:, 1], "state": state}))
    rows = pd.concat(parts, ignore_index=True).sort_values("begin_ns", ignore_index=True)
    return rows.assign(device=device)


def _edges(
    compute: iv.Intervals, sends: pd.DataFrame, open_time: iv.Intervals
) -> tuple[iv.Intervals, iv.Intervals]:
    """Per burst: the time before the first compute, and after both the last compute and the last send."""
    begin, end = open_time[:, 0], open_time[:, 1]
    if not len(compute):
        return open_time, iv.EMPTY
    first = np.searchsorted(compute[:, 1], begin, side="right")
    last = np.searchsorted(compute[:, 0], end, side="left") - 1
    some = last >= first
    first, last = np.minimum(first, len(compute) - 1), np.maximum(last, 0)
    filled = np.where(some, np.maximum(compute[first, 0], begin), end)
    sent = np.searchsorted(sends["begin_ns"].to_numpy(), end)
    reach = np.maximum.accumulate(np.concatenate(([begin[:1].min(initial=0)], sends["end_ns"].to_numpy())))
    done = np.where(some, np.maximum(compute[last, 1], reach[sent]), end)
    return iv.union(begin, filled), iv.union(done, end)


def _set(rows: pd.DataFrame) -> iv.Intervals:
    return iv.union(rows["begin_ns"].to_numpy(), rows["end_ns"].to_numpy())


def with_copies(timeline: pd.DataFrame, copies: iv.Intervals) -> tuple[iv.Intervals, NDArray[np.object_]]:
    """The stretches of one device's timeline and their states, "state" where its host `copies` states of
    sequences. In order of time."""
    times = timeline[["begin_ns", "end_ns"]].to_numpy().astype(np.int64)
    state = timeline["state"].astype(object).to_numpy()
    host = times[state == "host"]
    copying, others = iv.intersect(host, copies), iv.subtract(host, copies)
    every = np.concatenate((times[state != "host"], copying, others))
    named = [*state[state != "host"], *["state"] * len(copying), *["host"] * len(others)]
    order = np.argsort(every[:, 0], kind="stable")
    return every[order], np.array(named, dtype=object)[order]
