"""Sends told from receives where only NCCL's kernels are recorded, which bear one name for both.

A stage works until the very moment at which it sends, and from the very moment at which it has received. So
of two devices the one sends whose work is always close before its messages and, where the pipeline pauses,
not close after them; of the other it is the other way round.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bubblescope.analyzers import intervals as iv
from bubblescope.trace.model import Lost, Trace

_WHAT = "directions of messages"
#: A shorter time between work and message is as good as none.
CLOSE_NS = 10_000
#: So much of what speaks for either direction must speak for one.
CLEAR = 0.5


def name_messages(trace: Trace, rows: pd.DataFrame) -> tuple[pd.DataFrame, list[Lost]]:
    """Operations with the unnamed messages between two devices named, as far as that can be told.

    rows: operations, each as a device sees it; unnamed messages are collectives called "unknown".
    """
    unnamed = (rows["level"] == "device") & (rows["operation"] == "unknown")
    devices = np.unique(rows.loc[unnamed, "device"])
    named = (rows["level"] == "device") & rows["kind"].isin(["send", "recv"])
    if len(devices) < 2 or bool(named.any()):
        return rows, []
    if len(devices) > 2:
        why = "NCCL's kernels do not name their peers, and more than two devices exchange messages"
        return rows, [Lost(_WHAT, why, int(unnamed.sum()))]
    first, second = (_signs(trace, rows[unnamed & (rows["device"] == device)], device) for device in devices)
    difference = first.sum() - second.sum()
    if abs(difference) <= CLEAR * (np.abs(first).sum() + np.abs(second).sum()):
        return rows, [Lost(_WHAT, "NCCL's kernels do not tell senders from receivers", int(unnamed.sum()))]
    source, target = devices if difference > 0 else devices[::-1]
    kind = np.where(rows["device"] == source, "send", "recv")
    out = rows.assign(
        kind=rows["kind"].where(~unnamed, kind),
        operation=rows["operation"].where(~unnamed, kind),
        source=rows["source"].where(~unnamed, source),
        target=rows["target"].where(~unnamed, target),
    )
    why = (
        f"NCCL's kernels do not tell them; all are taken to go from device {source}, which works before, to "
    )
    return out, [Lost(_WHAT, f"{why}device {target}, which works after them", int(unnamed.sum()))]


def _signs(trace: Trace, messages: pd.DataFrame, device: int) -> NDArray[np.float64]:
    """Per message how much speaks for the device being the sender (positive) or the receiver.

    The first one is left out, since it opens the connection, which takes long on both sides.
    """
    work = _work(trace, device)
    begin, end = (messages[side].to_numpy()[1:] for side in ("begin_ns", "end_ns"))
    first, last = trace.slices["begin_ns"].min(), trace.slices["end_ns"].max()
    ends = np.concatenate(([first], work[:, 1]))
    begins = np.concatenate((work[:, 0], [last]))
    before = begin - ends[np.searchsorted(work[:, 1], begin, side="right")]
    after = begins[np.searchsorted(work[:, 0], end, side="left")] - end
    return np.asarray(np.log(np.maximum(after, CLOSE_NS) / np.maximum(before, CLOSE_NS)))


def _work(trace: Trace, device: int) -> NDArray[np.int64]:
    tracks = np.flatnonzero(trace.tracks["device"].to_numpy() == device)
    slices = trace.slices
    own = slices[
        slices["track"].isin(tracks) & (slices["category"] == "kernel") & (slices["operation"] == "")
    ]
    return iv.union(own["begin_ns"].to_numpy(), own["end_ns"].to_numpy())
