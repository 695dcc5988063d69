"""How many layers each stage holds: from the user, the recording, or the attention kernels."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from bubblescope.analyzers.pipeline import Pipeline
from bubblescope.trace.frames import UNKNOWN
from bubblescope.trace.model import Lost, Trace

_ATTENTION = re.compile(r"flash|fmha|attention|attn|sdpa", re.IGNORECASE)
#: Runs beside attention in every layer, or once a step, and bears its name.
_NOT_ATTENTION = re.compile(r"cache|prepare|combine|rope|rotary|norm|reshape|metadata", re.IGNORECASE)
#: A count is believed if this share of the microbatches agrees.
AGREEMENT = 0.8
#: Spans number layers with 32 bits.
_MOST = 1 << 31


def layers(
    trace: Trace, pipeline: Pipeline, spans: pd.DataFrame, flag: tuple[int, ...] | None
) -> tuple[dict[int, int], str | None, tuple[Lost, ...]]:
    """Layers per stage, where they come from ("flag", "recording", "attention" or None), and doubts."""
    stages = pipeline.stages
    for source, partition in (("flag", flag), ("recording", trace.run.partition)):
        if partition is None:
            continue
        if min(partition, default=0) < 1:
            return {}, None, (Lost("layers per stage", f"the {source} names a stage without layers"),)
        if max(partition) >= _MOST:
            return {}, None, (Lost("layers per stage", f"the {source} names more layers than a model has"),)
        if len(partition) == len(stages):
            return dict(zip(stages, partition, strict=True)), source, ()
        why = f"the {source} names {len(partition)} stages, the recording shows {len(stages)}"
        return {}, None, (Lost("layers per stage", why),)
    known = trace.spans[trace.spans["layer_begin"] != UNKNOWN]
    if len(known):
        held = known.groupby("stage").agg(begin=("layer_begin", "min"), end=("layer_end", "max"))
        counts = {int(s): int(e - b) for s, b, e in zip(held.index, held["begin"], held["end"], strict=True)}
        if set(counts) == set(stages):
            return counts, "recording", ()
    counted = {
        stage: _count(trace, spans[(spans["stage"] == stage) & (spans["kind"] == "forward")])
        for stage in stages
    }
    found = {stage: count for stage, count in counted.items() if count}
    if len(found) == len(stages):
        return found, "attention", ()
    why = "neither the recording nor its attention kernels tell; name them with --partition"
    return {}, None, (Lost("layers per stage", why),)


def is_attention(name: str) -> bool:
    """Whether a kernel of this name does the attention of a layer."""
    return bool(_ATTENTION.search(name) and not _NOT_ATTENTION.search(_function(name)))


def _count(trace: Trace, forward: pd.DataFrame) -> int | None:
    """How often the attention kernel with the most time runs in a microbatch, if most agree."""
    if not len(forward):
        return None
    device = int(forward["device"].iloc[0])
    tracks = np.flatnonzero(trace.tracks["device"].to_numpy() == device)
    names = trace.slices["name"].cat
    attention = [code for code, name in enumerate(names.categories) if is_attention(name)]
    rows = trace.slices[names.codes.isin(attention) & trace.slices["track"].isin(tracks)]
    rows = rows[rows["category"] == "kernel"].assign(code=names.codes).sort_values("begin_ns")
    ordered = forward.sort_values("begin_ns")
    at = np.searchsorted(ordered["begin_ns"].to_numpy(), rows["begin_ns"].to_numpy(), side="right") - 1
    inside = (at >= 0) & (rows["begin_ns"].to_numpy() < ordered["end_ns"].to_numpy()[at])
    rows = rows.assign(row=at, ns=rows["end_ns"] - rows["begin_ns"])[inside]
    if not len(rows):
        return None
    by_kernel = rows.groupby(["row", "code"])["ns"].agg(["sum", "size"]).reset_index()
    heaviest = by_kernel.sort_values("sum").groupby("row").last()["size"]
    most = heaviest.mode().iloc[0]
    return int(most) if (heaviest == most).mean() >= AGREEMENT else None


def _function(name: str) -> str:
    """A kernel's name without its template and call arguments."""
    return re.split(r"[<(]", name.removeprefix("void "), maxsplit=1)[0]
