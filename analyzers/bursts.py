"""When a request was open: from the request table, else from when the devices were quiet."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from bubblescope.analyzers import intervals as iv
from bubblescope.analyzers.activity import Activity
from bubblescope.analyzers.results import BURSTS
from bubblescope.trace import frames
from bubblescope.trace.model import Trace


def bursts(
    trace: Trace, activities: Sequence[Activity], last_ns: int, idle_gap_ns: int, marks: pd.DataFrame
) -> pd.DataFrame:
    """The stretches of the whole recording in which a request was open (schema BURSTS).

    A request whose end was not recorded is open until `last_ns`. `marks` tells the phases.
    """
    inferred = not len(trace.requests)
    if inferred:
        open_time = _while_not_quiet(activities, idle_gap_ns, marks)
    else:
        end = trace.requests["end_ns"].fillna(trace.requests["first_token_ns"]).fillna(last_ns)
        open_time = iv.union(trace.requests["arrival_ns"].to_numpy(), end.astype("int64").to_numpy())
    return frames.table(
        BURSTS,
        {"begin_ns": open_time[:, 0], "end_ns": open_time[:, 1], "inferred": [inferred] * len(open_time)},
    )


def around_steps(
    activities: Sequence[Activity], first_ns: int, last_ns: int, idle_gap_ns: int
) -> tuple[int, int]:
    """Begin and end of the work, without longer quiet times, in which the first and the last step lie.

    What the devices did long before the first step, or long after the last, is the engine's start or end.
    """
    work = iv.merge(*(activity.work for activity in activities))
    split = np.flatnonzero(work[1:, 0] - work[:-1, 1] > idle_gap_ns)
    begin = work[np.concatenate(([0], split + 1)), 0]
    end = work[np.concatenate((split, [len(work) - 1])), 1]
    first = min(int(np.searchsorted(end, first_ns, side="right")), len(end) - 1)
    last = max(int(np.searchsorted(begin, last_ns, side="left")) - 1, first)
    return int(begin[first]), int(end[last])


def _while_not_quiet(activities: Sequence[Activity], idle_gap_ns: int, marks: pd.DataFrame) -> iv.Intervals:
    work = iv.merge(*(activity.work for activity in activities))
    if len(work) < 2:
        return work
    gap = work[1:, 0] - work[:-1, 1]
    at = marks["at_ns"].to_numpy()
    # A quiet time before a decode step is no idle time: the step's request was open before it.
    decode = np.concatenate((marks["phase"].isin(["decode", "mixed"]).to_numpy(), [False]))
    goes_on = decode[np.searchsorted(at, work[1:, 0], side="left")]
    split = np.flatnonzero((gap > idle_gap_ns) & ~goes_on)
    if len(at):
        # Nor is one after which no batch begins before the next: a batch was still under way.
        begin, end = work[split + 1, 0], np.concatenate((work[split[1:], 1], work[-1:, 1]))
        split = split[np.searchsorted(at, begin) < np.searchsorted(at, end)]
    first = np.concatenate(([0], split + 1))
    last = np.concatenate((split, [len(work) - 1]))
    return np.column_stack((work[first, 0], work[last, 1]))
