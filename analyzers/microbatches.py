"""Stage spans out of raw slices: which kernels of a stage belong to which microbatch.

A microbatch is what one stage hands to the next. Several messages can form one (vLLM sends two
tensors), and small ones (sampled tokens) form none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bubblescope.analyzers import intervals as iv
from bubblescope.analyzers.activity import Activity
from bubblescope.analyzers.annotations import Batch, batch
from bubblescope.analyzers.grouping import grouped
from bubblescope.analyzers.pipeline import Pipeline
from bubblescope.trace import frames
from bubblescope.trace.frames import SPANS, UNKNOWN
from bubblescope.trace.model import Trace

#: Messages no larger than this, and this much smaller than the largest, hold tokens.
CONTROL_BYTES = 512
#: Compute below this share of what surrounds it is preparation: between two sends it makes no
#: microbatch of its own, and after a receive was posted it belongs to the next one.
WITHIN = 0.1
#: Where nothing names the phase: an activation this much smaller than the largest is a decode step.
DECODE_SHARE = 32
#: As many messages per microbatch are believed if this share of the microbatches shows them.
AGREEMENT = 0.8
#: Kernels with at most the first share of a microbatch's compute, separated from it by more than
#: the second share, are not part of it.
STRAY, FAR = 0.02, 0.05

Longs = NDArray[np.int64]


@dataclass(frozen=True)
class Handover:
    """Activations that go from a stage to the next, one row per microbatch, in order.

    frame: microbatch, bytes (of one message), send_begin, send_end, recv_begin, recv_end;
    times are -1 on a side that is not recorded.
    """

    source: int
    target: int
    frame: pd.DataFrame


def activation_sends(operations: pd.DataFrame, pipeline: Pipeline) -> pd.DataFrame:
    """Sends (or lone receives) to a later stage that carry activations, in order of begin."""
    stage = np.array([-1 if s is None else s for s in pipeline.stage_of] + [-1])
    rows = operations[(operations["level"] == "device") & operations["kind"].isin(["send", "recv"])]
    rows = rows[(rows["kind"] == "send") | (rows["pair"] < 0)]
    source, target = stage[rows["source"].to_numpy()], stage[rows["target"].to_numpy()]
    forward: pd.DataFrame = rows[(source >= 0) & (target > source)]
    if not len(forward):
        return forward
    largest = forward.groupby(["source", "target"])["bytes"].transform("max")
    size = forward["bytes"]
    control = (size >= 0) & (size <= CONTROL_BYTES) & (size * CONTROL_BYTES <= largest)
    activations: pd.DataFrame = forward[~control]
    return activations


def handovers(
    operations: pd.DataFrame, pipeline: Pipeline, activities: Sequence[Activity], leaders: Sequence[int]
) -> list[Handover]:
    """What each stage's leading device hands on or takes, in microbatches numbered alike on all."""
    sends = activation_sends(operations, pipeline)
    sends = sends[(sends["kind"] == "send") & (sends["pair"] >= 0)]
    found = []
    for (source, target), part in grouped(sends, "source", "target"):
        if source in leaders or target in leaders:
            groups = _group(part, activities[source].compute)
            found.append((source, target, _sides(part, operations.loc[part["pair"]], groups)))
    most = max((len(frame) for _, _, frame in found), default=0)
    # Recordings end together more often than they begin together: number from the end.
    return [
        Handover(a, b, frame.assign(microbatch=np.arange(len(frame)) + most - len(frame)))
        for a, b, frame in found
    ]


def _group(sends: pd.DataFrame, compute: iv.Intervals) -> Longs:
    """Group number of each send: a new microbatch begins where the stage computed in between.

    An engine hands every microbatch on in equally many messages, so what most of them show decides.
    """
    if (sends["microbatch"] >= 0).all():
        return np.unique(sends["microbatch"].to_numpy(), return_inverse=True)[1].astype(np.int64)
    begin, size = sends["begin_ns"].to_numpy(), sends["bytes"].to_numpy()
    between = iv.covered_between(compute, begin[:-1], begin[1:])
    around = np.maximum(np.concatenate(([0], between[:-1])), np.concatenate((between[1:], [0])))
    lone_pair = (len(between) == 1) & (between <= 0)
    within = (size[1:] == size[:-1]) & ((between < WITHIN * around) | lone_pair)
    groups = np.concatenate(([0], np.cumsum(~within))).astype(np.int64)
    counts = np.bincount(np.bincount(groups))
    messages = int(counts.argmax())
    if counts[messages] < AGREEMENT * counts.sum() and messages > 1:
        return groups
    from_end = np.arange(len(groups))[::-1] // messages
    return np.asarray(from_end[0] - from_end, dtype=np.int64)


def _sides(sends: pd.DataFrame, receives: pd.DataFrame, groups: Longs) -> pd.DataFrame:
    both = pd.DataFrame(
        {
            "group": groups,
            "bytes": sends["bytes"].to_numpy(),
            "send_begin": sends["begin_ns"].to_numpy(),
            "send_end": sends["end_ns"].to_numpy(),
            "recv_begin": receives["begin_ns"].to_numpy(),
            "recv_end": receives["end_ns"].to_numpy(),
        }
    )
    return both.groupby("group").agg(
        bytes=("bytes", "max"),
        send_begin=("send_begin", "min"),
        send_end=("send_end", "max"),
        recv_begin=("recv_begin", "min"),
        recv_end=("recv_end", "max"),
    ).reset_index(drop=True)  # fmt: skip


def phase_marks(trace: Trace) -> pd.DataFrame:
    """When each batch showed itself and its phase: at_ns, phase; in order of time.

    From stage spans or named ranges; empty where the recording has neither.
    """
    forward = trace.spans[trace.spans["kind"] == "forward"]
    if len(forward):
        marks = pd.DataFrame({"at_ns": forward["begin_ns"], "phase": forward["phase"].astype(object)})
    else:
        named = [row for device in range(len(trace.run.devices)) for row in batches_of(trace, device)]
        at = np.array([begin for begin, _, _ in named], dtype=np.int64)
        marks = pd.DataFrame({"at_ns": at, "phase": [known.phase for _, _, known in named]})
    return marks.sort_values("at_ns", kind="stable", ignore_index=True)


def _phase_by_size(size: pd.Series) -> np.ndarray:
    """Steps that hand on much are taken for prefill, and all where sizes are not known."""
    return np.where((size >= 0) & (size * DECODE_SHARE < size.max()), "decode", "prefill")


def stage_spans(
    trace: Trace,
    pipeline: Pipeline,
    activities: Sequence[Activity],
    leaders: Sequence[int],
    found: Sequence[Handover],
) -> pd.DataFrame:
    """Forward, send and recv spans of every stage's leading device, rebuilt from its slices."""
    rows: list[pd.DataFrame] = []
    into = {handover.target: handover.frame for handover in found}
    out = {handover.source: handover.frame for handover in found}
    for device in leaders:
        forward = _forward(activities[device], into.get(device), out.get(device))
        if forward is None:
            continue
        stage = pipeline.stage_of[device]
        assert stage is not None
        rows.append(
            _span_rows(stage, device, "forward", _described(forward, batches_of(trace, device)), UNKNOWN)
        )
        if device in into:
            rows.append(_span_rows(stage, device, "recv", _side(into[device], "recv"), stage - 1))
        if device in out:
            rows.append(_span_rows(stage, device, "send", _side(out[device], "send"), stage + 1))
    if not rows:
        return frames.empty(SPANS)
    spans = _share_batch(pd.concat(rows, ignore_index=True))
    return frames.checked(SPANS, spans.sort_values(["begin_ns", "stage"], kind="stable"))


def _forward(activity: Activity, into: pd.DataFrame | None, out: pd.DataFrame | None) -> pd.DataFrame | None:
    """First and last kernel of each microbatch on one device, between its receive and its send."""
    if into is None and out is None:
        return None
    if into is None:
        assert out is not None
        low = np.concatenate(([activity.first], out["send_begin"].to_numpy()[:-1]))
        table = pd.DataFrame({"microbatch": out["microbatch"], "low": low, "high": out["send_begin"]})
    elif out is None:
        arrived, posted = into["recv_end"].to_numpy(), into["recv_begin"].to_numpy()[1:]
        before = iv.covered_between(activity.compute, arrived[:-1], posted)
        after = iv.covered_between(activity.compute, posted, arrived[1:])
        # The next receive ends a microbatch, unless it was posted early, under its compute.
        following = np.where(after > WITHIN * before, arrived[1:], posted)
        high = np.concatenate((following, [activity.last]))
        table = pd.DataFrame({"microbatch": into["microbatch"], "low": arrived, "high": high})
    else:
        both = into.merge(out, on="microbatch", suffixes=("_in", "_out"))
        table = pd.DataFrame(
            {"microbatch": both["microbatch"], "low": both["recv_end_in"], "high": both["send_begin_out"]}
        )
    first = np.searchsorted(activity.kernel_begin, table["low"].to_numpy(), side="left")
    last = np.searchsorted(activity.kernel_begin, table["high"].to_numpy(), side="left")
    some = first < last
    bounds = [_without_stray_ends(activity, a, b) for a, b in zip(first[some], last[some], strict=True)]
    kept = table[some].reset_index(drop=True)
    return kept.assign(begin_ns=[begin for begin, _ in bounds], end_ns=[end for _, end in bounds])


def _without_stray_ends(activity: Activity, first: int, last: int) -> tuple[int, int]:
    """Begin and end of a run of kernels, less a little preparation or clean-up far from the rest.

    Engines prepare the next step's inputs long before they arrive; that is not the microbatch.
    """
    begin = activity.kernel_begin[first:last]
    end = np.maximum.accumulate(activity.kernel_end_by_begin[first:last])
    done = np.cumsum(np.maximum(end - np.maximum(begin, np.concatenate((begin[:1], end[:-1]))), 0))
    far = np.flatnonzero(begin[1:] - end[:-1] > FAR * done[-1])
    before = far[done[far] <= STRAY * done[-1]]
    after = far[done[-1] - done[far] <= STRAY * done[-1]]
    low = int(before[-1]) + 1 if len(before) else 0
    high = int(after[0]) if len(after) else len(begin) - 1
    return int(begin[low]), int(end[high])


def batches_of(trace: Trace, device: int) -> list[tuple[int, int, Batch]]:
    """Begin, end and meaning of the device ranges that name a batch, in order of begin."""
    tracks = np.flatnonzero(trace.tracks["device"].to_numpy() == device)
    rows = trace.slices[(trace.slices["category"] == "device_range") & trace.slices["track"].isin(tracks)]
    meaning = {name: batch(name) for name in rows["name"].cat.categories}
    named = [
        (int(begin), int(end), known)
        for name, begin, end in zip(
            rows["name"].astype(object), rows["begin_ns"], rows["end_ns"], strict=True
        )
        if (known := meaning[name]) is not None
    ]
    return sorted(named, key=lambda row: row[:2])


def _described(forward: pd.DataFrame, batches: list[tuple[int, int, Batch]]) -> pd.DataFrame:
    """Give each forward the phase and tokens of the range that its last kernel lies in."""
    if not batches:
        return forward.assign(phase="unknown", tokens=UNKNOWN)
    begins = np.array([row[0] for row in batches])
    at = np.searchsorted(begins, forward["end_ns"].to_numpy() - 1, side="right") - 1
    inside = [
        batches[i][2] if i >= 0 and batches[i][1] > b else None
        for i, b in zip(at, forward["begin_ns"], strict=True)
    ]
    return forward.assign(
        phase=[known.phase if known else "unknown" for known in inside],
        tokens=[known.tokens if known else UNKNOWN for known in inside],
    )


def _side(handover: pd.DataFrame, side: str) -> pd.DataFrame:
    return handover[["microbatch", "bytes"]].assign(
        begin_ns=handover[f"{side}_begin"], end_ns=handover[f"{side}_end"], phase="unknown", tokens=UNKNOWN
    )


def _span_rows(stage: int, device: int, kind: str, table: pd.DataFrame, peer: int) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "stage": stage, "device": device, "step": table["microbatch"], "microbatch": table["microbatch"],
            "kind": kind, "phase": table["phase"], "tokens": table["tokens"], "prefix": UNKNOWN,
            "layer_begin": UNKNOWN, "layer_end": UNKNOWN, "peer": peer,
            "bytes": table.get("bytes", UNKNOWN),
            "begin_ns": table["begin_ns"], "end_ns": table["end_ns"], "clock": "device",
        }
    )  # fmt: skip


def _share_batch(spans: pd.DataFrame) -> pd.DataFrame:
    """One phase, token count and prefix per microbatch for all stages, from whichever names them."""
    named = spans[spans["phase"] != "unknown"].groupby("microbatch")[["phase", "tokens"]].first()
    if len(named):
        phase = spans["microbatch"].map(named["phase"]).fillna("unknown")
        tokens = spans["microbatch"].map(named["tokens"]).fillna(UNKNOWN).astype(np.int64)
    else:
        size = spans.groupby("microbatch")["bytes"].max()
        phase = spans["microbatch"].map(pd.Series(_phase_by_size(size), index=size.index))
        tokens = spans["tokens"]
    shared = spans.assign(phase=phase, tokens=tokens)
    return shared.assign(prefix=shared["microbatch"].map(_prefixes(shared)).astype(np.int64))


def _prefixes(spans: pd.DataFrame) -> pd.Series:
    """Tokens before each prefill chunk, if consecutive chunks belong to one prompt.

    A prompt ends with a chunk shorter than its first, or with a decode step.
    """
    order = spans.sort_values("microbatch").drop_duplicates("microbatch")[["microbatch", "phase", "tokens"]]
    prefix, first, done = [], 0, 0
    for phase, tokens in zip(order["phase"], order["tokens"], strict=True):
        if phase != "prefill" or tokens < 0:
            prefix.append(UNKNOWN)
            first, done = 0, 0
            continue
        prefix.append(done)
        first = first or tokens
        done = done + tokens if tokens == first else 0
        first = first if done else 0
    return pd.Series(prefix, index=order["microbatch"])
