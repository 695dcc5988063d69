"""How many stages compute at once, and how good a pipeline of this depth could be."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from bubblescope.analyzers import intervals as iv
from bubblescope.analyzers.results import CONCURRENCY
from bubblescope.trace import frames


def concurrency(computes: Sequence[iv.Intervals], window: tuple[int, int]) -> pd.DataFrame:
    """Time in which 0, 1, 2 … of the given sets hold (schema CONCURRENCY); sums to the window."""
    inside = [iv.intersect(compute, iv.span(*window)) for compute in computes]
    stacked = np.concatenate([*inside, iv.EMPTY])
    at = np.concatenate((stacked[:, 0], stacked[:, 1], list(window)))
    step = np.repeat([1, -1, 0], [len(stacked), len(stacked), 2])
    order = np.argsort(at, kind="stable")
    level = np.cumsum(step[order])[:-1]
    length = np.diff(at[order])
    sums = np.zeros(len(computes) + 1, dtype=np.int64)
    np.add.at(sums, level, length)
    return frames.table(CONCURRENCY, {"stages": np.arange(len(sums)), "ns": sums})


def ideal_bubble_ratio(stages: int, spans: pd.DataFrame, bursts: pd.DataFrame) -> float | None:
    """(D-1)/(D-1+N) per burst over its N prefill microbatches, weighted by burst length.

    None where no burst holds a prefill. Textbook fill and drain of a balanced pipeline.
    """
    forward = spans[(spans["kind"] == "forward") & spans["phase"].isin(["prefill", "mixed"])]
    begins = np.sort(forward.groupby("microbatch")["begin_ns"].min().to_numpy())
    weighted, weight = 0.0, 0
    for begin, end in bursts[["begin_ns", "end_ns"]].to_numpy().tolist():
        count = int(np.searchsorted(begins, end) - np.searchsorted(begins, begin))
        if count:
            weighted += (end - begin) * (stages - 1) / (stages - 1 + count)
            weight += end - begin
    return weighted / weight if weight else None
