"""What kind of kernels each stage ran, and what they take per layer; where its device waited for launches."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bubblescope.analyzers import intervals as iv
from bubblescope.analyzers.layers import is_attention
from bubblescope.analyzers.pipeline import Pipeline
from bubblescope.analyzers.results import KERNEL_TIMES
from bubblescope.trace import frames
from bubblescope.trace.frames import UNKNOWN
from bubblescope.trace.model import Trace

#: Products of matrices, as cuBLAS (nvjet), CUTLASS, Triton and the engines name them, also quantised ones
#: and those of experts.
_MATRIX = re.compile(
    r"gemm|gemv|nvjet|cutlass|cublas|matmul|mul_mat|marlin|machete|fused_moe|grouped_mm|wgmma|splitk",
    re.IGNORECASE,
)
_BETWEEN_STAGES = ("send", "recv", "broadcast", "unknown")


def kernel_times(
    trace: Trace,
    spans: pd.DataFrame,
    pipeline: Pipeline,
    leaders: Sequence[int],
    held: Mapping[int, int],
    window: tuple[int, int],
) -> pd.DataFrame:
    """Kernels and copies of every stage's leading device in the window, by what they do (KERNEL_TIMES).

    held: layers per stage, where known.
    """
    parts = [
        _of_stage(trace, spans, device, stage, held.get(stage, 0), window)
        for device in leaders
        if (stage := pipeline.stage_of[device]) is not None
    ]
    kept = [part for part in parts if len(part)]
    return frames.checked(KERNEL_TIMES, pd.concat(kept)) if kept else frames.empty(KERNEL_TIMES)


def launch_gaps(
    timeline: pd.DataFrame, spans: pd.DataFrame, device: int
) -> tuple[iv.Intervals, iv.Intervals]:
    """When a device stood still between two kernels of a microbatch of prefill, waiting for neither data nor
    a peer, and when it was at such microbatches at all.

    Its queue was empty: the host had not launched the next kernel. What is the host's outside of a forward
    is scheduling and preparation.
    """
    own = timeline[timeline["device"] == device]
    forward = spans[(spans["device"] == device) & (spans["kind"] == "forward") & (spans["phase"] != "decode")]
    at_work = iv.intersect(_times(own), _times(forward))
    return iv.intersect(_times(own[own["state"] == "host"]), at_work), at_work


def _times(rows: pd.DataFrame) -> iv.Intervals:
    return iv.union(rows["begin_ns"].to_numpy(), rows["end_ns"].to_numpy())


def _of_stage(
    trace: Trace, spans: pd.DataFrame, device: int, stage: int, layers: int, window: tuple[int, int]
) -> pd.DataFrame:
    tracks = np.flatnonzero(trace.tracks["device"].to_numpy() == device)
    work = trace.slices[
        trace.slices["track"].isin(tracks) & trace.slices["category"].isin(["kernel", "copy", "memset"])
    ]
    rows = work[(work["begin_ns"] >= window[0]) & (work["begin_ns"] < window[1])]
    forward = spans[
        (spans["device"] == device) & (spans["kind"] == "forward") & (spans["phase"] == "prefill")
    ]
    # Whole ones only; the host may take note of its end later than the device has worked at all.
    end = forward["end_ns"].clip(upper=work["end_ns"].max())
    forward = forward[(forward["begin_ns"] >= window[0]) & (end <= window[1])]
    ns = rows["end_ns"] - rows["begin_ns"]
    # What goes to another stage meanwhile is no layer's.
    of_layers = _inside(rows["begin_ns"], forward) & ~rows["operation"].isin(_BETWEEN_STAGES)
    found = pd.DataFrame({"part": _parts(rows), "ns": ns, "within": ns.where(of_layers, 0)})
    by_part = found.groupby("part").agg(kernels=("ns", "size"), ns=("ns", "sum"), within=("within", "sum"))
    per = layers * len(forward)
    layer_ns = by_part["within"] // per if per else UNKNOWN
    return by_part.assign(stage=stage, layer_ns=layer_ns).reset_index().drop(columns="within")


def _parts(rows: pd.DataFrame) -> pd.Series[str]:
    """What each row does: one of KERNEL_TIMES' parts."""
    names = rows["name"].cat
    meaning = [
        "attention" if is_attention(name) else "matrix" if _MATRIX.search(name) else "other"
        for name in names.categories
    ]
    part = pd.Series(np.array([*meaning, "other"], dtype=object)[names.codes], index=rows.index)
    part = part.where(rows["operation"] == "", "communication")
    return part.where(rows["category"] == "kernel", "copy")


def _inside(begins: pd.Series[int], spans: pd.DataFrame) -> NDArray[np.bool_]:
    """Which of these times lie in one of the spans, that do not overlap."""
    ordered = spans.sort_values("begin_ns")
    begin, end = ordered["begin_ns"].to_numpy(), ordered["end_ns"].to_numpy()
    at = np.searchsorted(begin, begins.to_numpy(), side="right") - 1
    inside = np.zeros(len(begins), dtype=bool)
    some = at >= 0
    inside[some] = begins.to_numpy()[some] < end[at[some]]
    return inside
