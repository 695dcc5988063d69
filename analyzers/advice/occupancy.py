"""How long each stage was occupied by each microbatch, as arrays of stages × microbatches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bubblescope.analyzers.activity import COMPUTE_SPANS, on_device
from bubblescope.trace.frames import UNKNOWN

#: Work of the first or the last stage that does not grow with the layers it holds.
_ENDS = ("embed", "head", "sample")
#: What one stage did for one microbatch.
_CELL = ["row", "microbatch"]

Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]


class CannotTellError(Exception):
    """The recording does not tell enough for advice; the message says what is missing."""


@dataclass(frozen=True)
class Occupancy:
    """S stages × M microbatches, in the order in which they first began.

    origin_ns: what all times here count from.
    begin_ns, end_ns: (S, M); 0 where the stage did not run the microbatch.
    layers_ns: (S, M), time for layers, with the gaps between kernels: they occupy the stage as well.
    ends_ns: (S, M), time for embedding, head and sampling where the recording has them apart, and for what
        else is done before the first layer and after the last where those are recorded one by one.
    tokens, prefix: (M,), UNKNOWN where not recorded.
    decode: (M,), steps that hold no prefill. whole: (M,), recorded on every stage.
    """

    origin_ns: int
    begin_ns: Longs
    end_ns: Longs
    layers_ns: Longs
    ends_ns: Longs
    tokens: Longs
    prefix: Longs
    decode: Flags
    whole: Flags

    def only(self, columns: Longs | Flags) -> Occupancy:
        """The same for some of the microbatches."""
        return Occupancy(
            self.origin_ns,
            self.begin_ns[:, columns],
            self.end_ns[:, columns],
            self.layers_ns[:, columns],
            self.ends_ns[:, columns],
            self.tokens[columns],
            self.prefix[columns],
            self.decode[columns],
            self.whole[columns],
        )


def occupancy(spans: pd.DataFrame, leaders: Sequence[int]) -> Occupancy:
    """Every microbatch of the spans (schema SPANS) on the leading device of each stage, in stage order.

    Raises CannotTellError where there is none.
    """
    row_of = {device: row for row, device in enumerate(leaders)}
    known = on_device(spans[spans["device"].isin(list(row_of)) & (spans["microbatch"] >= 0)])
    spans = known[known["kind"].isin(COMPUTE_SPANS)]
    if not len(spans):
        raise CannotTellError("the recording does not show which work belongs to which microbatch")
    origin = int(spans["begin_ns"].min())
    work = pd.DataFrame(
        {
            "row": spans["device"].map(row_of).astype(np.int64),
            "microbatch": spans["microbatch"],
            "begin": spans["begin_ns"] - origin,
            "end": spans["end_ns"] - origin,
            "is_end": spans["kind"].isin(_ENDS),
            "forward": spans["kind"] == "forward",
            "decode": spans["phase"] == "decode",
            "tokens": spans["tokens"],
            "prefix": spans["prefix"],
        }
    ).sort_values(["row", "microbatch", "begin"], kind="stable")
    work["busy"] = _newly_covered(work)
    work["ends"] = (work["end"] - work["begin"]).where(work["is_end"], 0)
    cells = work.groupby(_CELL).agg(
        begin=("begin", "min"), end=("end", "max"), busy=("busy", "sum"), ends=("ends", "sum"),
        forward=("forward", "any"), decode=("decode", "any"),
        tokens=("tokens", "max"), prefix=("prefix", "max"),
    )  # fmt: skip
    order = work.groupby("microbatch")["begin"].min().sort_values(kind="stable").index

    cells["layers"] = _of_layers(known.assign(row=known["device"].map(row_of)), cells)

    def matrix(name: str, absent: int = 0) -> Longs:
        wide = cells[name].astype(np.int64).unstack("microbatch", fill_value=absent)
        return wide.reindex(index=range(len(leaders)), columns=order, fill_value=absent).to_numpy()

    return Occupancy(
        origin_ns=origin,
        begin_ns=matrix("begin"),
        end_ns=matrix("end"),
        layers_ns=matrix("layers"),
        ends_ns=matrix("ends") + np.maximum(matrix("busy") - matrix("ends") - matrix("layers"), 0),
        tokens=matrix("tokens", UNKNOWN).max(axis=0),
        prefix=matrix("prefix", UNKNOWN).max(axis=0),
        decode=np.asarray(matrix("decode").any(axis=0)),
        whole=np.asarray(matrix("forward").all(axis=0)),
    )


def _of_layers(spans: pd.DataFrame, cells: pd.DataFrame) -> pd.Series:
    """Of each cell the time for layers: from the first one to the last where all are recorded one by one,
    else what the ends leave."""
    rest = (cells["busy"] - cells["ends"]).clip(lower=0)
    forward, layer = (spans[spans["kind"] == kind] for kind in ("forward", "layer"))
    held = (forward["layer_end"] - forward["layer_begin"]).groupby([forward[name] for name in _CELL]).max()
    found = layer.groupby(_CELL).agg(begin=("begin_ns", "min"), end=("end_ns", "max"), count=("kind", "size"))
    found = found.reindex(cells.index)
    all_there = found["count"] == held.reindex(cells.index)
    return (found["end"] - found["begin"]).where(all_there).fillna(rest).clip(upper=rest).astype(np.int64)


def _newly_covered(work: pd.DataFrame) -> pd.Series:
    """What each span adds to the time covered: one may lie in another, as the head in the forward."""
    by = [work["row"], work["microbatch"]]
    reach = work["end"].groupby(by).cummax().groupby(by).shift()
    return (work["end"] - np.maximum(work["begin"], reach.fillna(work["begin"]))).clip(lower=0)
