"""How long each layer took where a recording times them one by one."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from bubblescope.analyzers.results import LAYER_TIMES
from bubblescope.trace import frames

#: Layers of a stage whose times differ by less than this factor are alike.
_ALIKE = 2.0


def layer_times(spans: pd.DataFrame, leaders: Sequence[int], window: tuple[int, int]) -> pd.DataFrame:
    """The layers (or their attention) of every stage's leading device, in the prefill of the window.

    spans: schema SPANS. Returns schema LAYER_TIMES, in order of stage and layer.
    """
    begin, end = window
    chosen = spans[
        spans["kind"].isin(["layer", "attention"])
        & spans["device"].isin(leaders)
        & (spans["phase"] != "decode")
        & (spans["begin_ns"] >= begin)
        & (spans["end_ns"] <= end)
    ]
    if not len(chosen):
        return frames.empty(LAYER_TIMES)
    rows = pd.DataFrame(
        {
            "stage": chosen["stage"],
            "layer": chosen["layer_begin"],
            "part": chosen["kind"].astype(object),
            "microbatch": chosen["microbatch"],
            "ns": chosen["end_ns"] - chosen["begin_ns"],
        }
    )
    found = (
        rows.groupby(["stage", "layer", "part"])
        .agg(microbatches=("microbatch", "nunique"), ns=("ns", "sum"), median_ns=("ns", "median"))
        .reset_index()
    )
    return frames.checked(LAYER_TIMES, found.assign(median_ns=found["median_ns"].astype("int64")))


def unlike_layers(times: pd.DataFrame) -> list[int]:
    """The stages with a layer that takes far longer than another of them; times: schema LAYER_TIMES."""
    medians = times.loc[times["part"] == "layer"].groupby("stage")["median_ns"].agg(["min", "max"])
    stages: list[int] = medians.index[medians["max"] >= _ALIKE * medians["min"]].tolist()
    return stages
