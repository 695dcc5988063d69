"""Each operation split into waiting and moving data, by the rules of what a bubble is.

A receive that waits looks busy to every counter: its kernel spins. Only the begin of the other
side tells when data could move.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bubblescope.analyzers.grouping import grouped
from bubblescope.analyzers.pipeline import Pipeline

#: A message this much smaller than the largest one between two stages holds tokens, not activations.
TOKEN_SHARE = 8
NOBODY = -1

Longs = NDArray[np.int64]


@dataclass(frozen=True)
class Waits:
    """transfers: device, begin_ns, end_ns of data that moves.

    waits: device, state ("starved" or "blocked"), begin_ns, end_ns, awaited (device, -1 unknown),
    hint ("token", "tp_skew" or ""), since_ns (begin of the operation).
    """

    transfers: pd.DataFrame
    waits: pd.DataFrame


def waits(operations: pd.DataFrame, pipeline: Pipeline) -> Waits:
    """Split every operation; one without its other side is taken to wait beyond the shortest of its kind."""
    split = _messages(operations), _collectives(operations), _alone(operations)
    rows = pd.concat([*split, _control(operations)], ignore_index=True)
    rows["hint"] = _hints(rows, operations, pipeline)
    moving = rows[(rows["move_begin"] < rows["move_end"])]
    waiting = rows[rows["wait_begin"] < rows["wait_end"]]
    return Waits(
        transfers=pd.DataFrame(
            {"device": moving["device"], "begin_ns": moving["move_begin"], "end_ns": moving["move_end"]}
        ).reset_index(drop=True),
        waits=pd.DataFrame(
            {
                "device": waiting["device"],
                "state": waiting["state"],
                "begin_ns": waiting["wait_begin"],
                "end_ns": waiting["wait_end"],
                "awaited": waiting["awaited"],
                "hint": waiting["hint"],
                "since_ns": waiting["since_ns"],
            }
        )
        .sort_values(["device", "since_ns"], kind="stable")
        .reset_index(drop=True),
    )


def message_pairs(operations: pd.DataFrame) -> pd.DataFrame:
    """Sends beside their receives: send, recv (rows), source, target, bytes and the five times."""
    sends = operations[(operations["kind"] == "send") & (operations["pair"] >= 0)]
    recv = operations.loc[sends["pair"]]
    return pd.DataFrame(
        {
            "send": sends.index.to_numpy(),
            "recv": recv.index.to_numpy(),
            "source": sends["source"].to_numpy(),
            "target": sends["target"].to_numpy(),
            "bytes": sends["bytes"].to_numpy(),
            "send_begin": sends["begin_ns"].to_numpy(),
            "send_end": sends["end_ns"].to_numpy(),
            "recv_asked": recv["asked_ns"].to_numpy(),
            "recv_begin": recv["begin_ns"].to_numpy(),
            "recv_end": recv["end_ns"].to_numpy(),
        }
    )


def _rows(device: Longs, state: str, awaited: Longs, begin: Longs, moving: Longs, end: Longs) -> pd.DataFrame:
    """Operations that wait from `begin` to `moving` and then move data to `end`."""
    met = np.clip(moving, begin, end)
    return pd.DataFrame(
        {
            "device": device, "state": state, "awaited": awaited, "since_ns": begin,
            "wait_begin": begin, "wait_end": met, "move_begin": met, "move_end": end,
        }
    )  # fmt: skip


def _messages(operations: pd.DataFrame) -> pd.DataFrame:
    pairs = message_pairs(operations)
    met = np.maximum(pairs["send_begin"], pairs["recv_begin"])
    eager = pairs["send_end"] <= pairs["recv_begin"]
    copying = np.minimum(_copy_time(pairs, eager), pairs["send_end"] - pairs["send_begin"])
    send = _rows(
        pairs["source"].to_numpy(),
        "blocked",
        pairs["target"].to_numpy(),
        pairs["send_begin"].to_numpy(),
        np.where(eager, pairs["send_end"] - copying, met),
        pairs["send_end"].to_numpy(),
    )
    recv = _rows(
        pairs["target"].to_numpy(),
        "starved",
        pairs["source"].to_numpy(),
        pairs["recv_begin"].to_numpy(),
        np.where(eager, pairs["recv_begin"], met),
        pairs["recv_end"].to_numpy(),
    )
    return pd.concat([send, recv, _asked(pairs)], ignore_index=True)


def _asked(pairs: pd.DataFrame) -> pd.DataFrame:
    """Waits of a stage that asked for its input before its device was told to receive it.

    They last until the other side begins to send; what is left until the receive begins is the host's.
    """
    asked = pairs["recv_asked"].to_numpy()
    until = np.clip(pairs["send_begin"], asked, pairs["recv_begin"]).to_numpy()
    return _rows(pairs["target"].to_numpy(), "starved", pairs["source"].to_numpy(), asked, until, until)


def _copy_time(pairs: pd.DataFrame, eager: pd.Series) -> Longs:
    """How long a send of this pair and size takes when nothing holds it up.

    The median of the sends whose receive already stood ready; without any, of the part of a send
    that moved data; without that either, the shortest send.
    """
    by = [pairs["source"], pairs["target"], pairs["bytes"]]
    duration = pairs["send_end"] - pairs["send_begin"]
    ready = duration.where(~eager & (pairs["recv_begin"] <= pairs["send_begin"]))
    moved = (pairs["send_end"] - np.maximum(pairs["send_begin"], pairs["recv_begin"])).where(~eager)
    best = ready.groupby(by).transform("median")
    best = best.fillna(moved.groupby(by).transform("median"))
    best = best.fillna(duration.groupby(by).transform("min"))
    return best.fillna(0).to_numpy().astype(np.int64)


def _collectives(operations: pd.DataFrame) -> pd.DataFrame:
    rows = operations[(operations["kind"] == "collective") & (operations["pair"] >= 0)]
    begin, end = rows["begin_ns"].to_numpy(), rows["end_ns"].to_numpy()
    last = rows.groupby("pair")["begin_ns"].transform("idxmax")
    met = operations["begin_ns"].to_numpy()[last.to_numpy()]
    awaited = operations["device"].to_numpy()[last.to_numpy()]
    # One that ended before the last began did not wait for it: a root whose data was buffered.
    met = np.where(end <= met, begin, met)
    return _rows(rows["device"].to_numpy(), "starved", awaited, begin, met, end)


def _alone(operations: pd.DataFrame) -> pd.DataFrame:
    rows = operations[(operations["pair"] < 0) & (operations["level"] == "device")]
    duration = rows["end_ns"] - rows["begin_ns"]
    same = [rows[c] for c in ("device", "operation", "source", "target", "bytes")]
    moving = rows["end_ns"] - duration.groupby(same).transform("min")
    other = np.where(rows["kind"] == "send", rows["target"], rows["source"])
    out = _rows(
        rows["device"].to_numpy(),
        "starved",
        np.where(rows["kind"] == "collective", NOBODY, other),
        rows["begin_ns"].to_numpy(),
        moving.to_numpy(),
        rows["end_ns"].to_numpy(),
    )
    out["state"] = np.where(rows["kind"] == "send", "blocked", "starved")
    return out


def _control(operations: pd.DataFrame) -> pd.DataFrame:
    """Receives of control messages on the host: the stage waits until they are sent.

    Which send belongs to a receive is not recorded: it is taken to be the last one that its
    source began before the receive ended. The message itself is too small to count as transfer.
    """
    host = operations[
        (operations["level"] == "host") & (operations["source"] >= 0) & (operations["target"] >= 0)
    ]
    nothing = np.empty(0, dtype=np.int64)
    parts = [_rows(nothing, "starved", nothing, nothing, nothing, nothing)]
    for (source, target), flow in grouped(host, "source", "target"):
        sent = np.sort(flow.loc[flow["kind"] == "send", "begin_ns"].to_numpy())
        received = flow[flow["kind"] == "recv"]
        begin, end = received["begin_ns"].to_numpy(), received["end_ns"].to_numpy()
        before = np.concatenate(([begin.min(initial=0)], sent))[np.searchsorted(sent, end, side="right")]
        until = np.maximum(begin, before)
        parts.append(
            _rows(np.full_like(begin, target), "starved", np.full_like(begin, source), begin, until, until)
        )
    return pd.concat(parts, ignore_index=True)


def _hints(rows: pd.DataFrame, operations: pd.DataFrame, pipeline: Pipeline) -> NDArray[np.object_]:
    """Waits that need no following: inside a stage, or for sampled tokens to come back."""
    # One more entry at the end, so that an unknown device (-1) finds an unknown stage.
    stage_of = np.array([*(-1 if stage is None else stage for stage in pipeline.stage_of), -1])
    device, awaited = rows["device"].to_numpy(), rows["awaited"].to_numpy()
    own, other = stage_of[device], stage_of[awaited]
    known = (own >= 0) & (other >= 0)
    heavy = _activation_edges(operations, stage_of)
    gradients = np.isin(awaited * len(stage_of) + device, [a * len(stage_of) + b for a, b in heavy])
    returns = (rows["state"].to_numpy() == "starved") & (other > own) & ~gradients
    return np.select([known & (own == other), known & returns], ["tp_skew", "token"], "").astype(object)


def _activation_edges(operations: pd.DataFrame, stage_of: Longs) -> list[tuple[int, int]]:
    """Edges back to an earlier stage that carry as much as activations do: gradients, not tokens."""
    messages = operations[(operations["level"] == "device") & operations["kind"].isin(["send", "recv"])]
    messages = messages[(messages["source"] >= 0) & (messages["target"] >= 0)]
    if not len(messages):
        return []
    largest = {edge: int(flow["bytes"].max()) for edge, flow in grouped(messages, "source", "target")}
    ahead = max((size for (a, b), size in largest.items() if stage_of[a] < stage_of[b]), default=0)
    return [
        (a, b)
        for (a, b), size in largest.items()
        if stage_of[a] > stage_of[b] and ahead > 0 and size * TOKEN_SHARE > ahead
    ]
