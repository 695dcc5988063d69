"""Communication as a table: every send, receive and collective, paired with its other side.

Times of an operation run from its launch on the device (or host) to its end, so they hold the
waiting as well as the moving of data; `waits` tells the two apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from bubblescope.analyzers.unnamed_messages import name_messages
from bubblescope.trace.frames import UNKNOWN
from bubblescope.trace.model import Lost, Trace

#: Clocks of two devices of one host may differ by this much without an operation being impossible.
CLOCK_SLACK_NS = 100_000

#: device: who runs it. level: "device" or "host" (a control message). kind: "send", "recv" or
#: "collective". source, target: devices of a send or receive, -1 where unknown. key: what pairs
#: are formed within (process group, or microbatch). pair: the row of the other side of a send or
#: receive; for a collective the lowest row of its participants; -1 where there is none. asked_ns: since
#: when the stage has asked for what it receives, if that was before the begin; else the begin.
COLUMNS = (
    "device", "level", "kind", "operation", "key", "source", "target", "bytes",
    "begin_ns", "end_ns", "asked_ns", "microbatch", "pair",
)  # fmt: skip


@dataclass(frozen=True)
class Operations:
    """Operations in order of their begin, with what could not be paired."""

    frame: pd.DataFrame
    lost: tuple[Lost, ...] = ()


def operations(trace: Trace) -> Operations:
    """Every communication of the recording, paired by (key, source, target, order)."""
    rows = pd.concat([_from_slices(trace), _from_spans(trace)], ignore_index=True)
    rows = rows.sort_values(["begin_ns", "device"], kind="stable", ignore_index=True)
    rows["pair"] = UNKNOWN
    rows, guessed = name_messages(trace, rows)
    rows = _within_microbatches(_resolve_unnamed_peers(rows, len(trace.run.devices)))
    lost = [*guessed, *_pair_messages(rows), *_pair_collectives(rows), *_unseen_peers(trace, rows)]
    rows = _over_when_received(rows)
    return Operations(rows[list(COLUMNS)], tuple(lost))


def devices_with_kernels(trace: Trace, operations: Sequence[str] | None = None) -> set[int]:
    """Devices whose own timeline was recorded, with kernels of these operations if any are named."""
    wanted = trace.slices["category"] == "kernel"
    if operations is not None:
        wanted &= trace.slices["operation"].isin(operations)
    tracks = trace.slices.loc[wanted, "track"].unique()
    return set(trace.tracks["device"].to_numpy()[tracks].tolist())


def _from_slices(trace: Trace) -> pd.DataFrame:
    rows = trace.slices[trace.slices["operation"] != ""]
    device = trace.tracks["device"].to_numpy()[rows["track"].to_numpy()]
    operation = rows["operation"].astype(object).to_numpy()
    kind = np.where(np.isin(operation, ["send", "recv"]), operation, "collective")
    microbatch = np.where(kind == "collective", UNKNOWN, rows["microbatch"])
    peer = _device_of_rank(trace, rows["peer"].to_numpy())
    return pd.DataFrame(
        {
            "device": device.astype(np.int64),
            "level": np.where(rows["category"] == "kernel", "device", "host"),
            "kind": kind,
            "operation": operation,
            "key": rows["group"].astype(object),
            "source": np.where(kind == "recv", peer, np.where(kind == "send", device, UNKNOWN)),
            "target": np.where(kind == "send", peer, np.where(kind == "recv", device, UNKNOWN)),
            "bytes": rows["bytes"].to_numpy(),
            "begin_ns": rows["begin_ns"].to_numpy(),
            "end_ns": rows["end_ns"].to_numpy(),
            "asked_ns": _asked(rows.assign(device=device), trace.spans),
            "microbatch": microbatch,
        }
    )


def _asked(rows: pd.DataFrame, spans: pd.DataFrame) -> np.ndarray:
    """Since when what each of the slices receives was asked for: its span's begin, for the first in it."""
    asked = rows["begin_ns"].to_numpy().copy()
    key = ["device", "microbatch"]
    told = spans.loc[spans["kind"] == "recv", [*key, "begin_ns"]].sort_values("begin_ns")
    kernels = (rows["category"] == "kernel") & (rows["operation"] == "recv") & (rows["microbatch"] >= 0)
    received = rows.loc[kernels, [*key, "begin_ns"]].assign(row=np.flatnonzero(kernels))
    received = received.sort_values("begin_ns")
    # Int64, as a float that a missing one would make of them holds no time since 1970.
    told = told.assign(since=told["begin_ns"].astype("Int64"))
    found = pd.merge_asof(received, told, on="begin_ns", by=key)
    found = found.dropna(subset=["since"]).drop_duplicates([*key, "since"])
    asked[found["row"].to_numpy()] = found["since"].to_numpy(np.int64)
    return asked


def _from_spans(trace: Trace) -> pd.DataFrame:
    spans = trace.spans
    # Not every engine's kernels tell of its messages: llama.cpp copies from device to device.
    told = devices_with_kernels(trace, ("send", "recv", "unknown"))
    wanted = spans["kind"].isin(["send", "recv"]) & ~spans["device"].isin(told)
    rows = spans[wanted]
    kind = rows["kind"].astype(object).to_numpy()
    device = rows["device"].to_numpy().astype(np.int64)
    step = np.where(kind == "send", 1, -1)
    stage = np.where(rows["peer"] == UNKNOWN, rows["stage"] + step, rows["peer"])
    peer = _device_of_stage(trace, device, stage)
    return pd.DataFrame(
        {
            "device": device,
            "level": "device",
            "kind": kind,
            "operation": kind,
            "key": "",
            "source": np.where(kind == "send", device, peer),
            "target": np.where(kind == "send", peer, device),
            "bytes": rows["bytes"].to_numpy(),
            "begin_ns": rows["begin_ns"].to_numpy(),
            "end_ns": rows["end_ns"].to_numpy(),
            "asked_ns": rows["begin_ns"].to_numpy(),
            "microbatch": rows["microbatch"].to_numpy(),
        }
    )


def _device_of_rank(trace: Trace, rank: np.ndarray) -> np.ndarray:
    first: dict[int, int] = {}
    for number, device in enumerate(trace.run.devices):
        if device.rank is not None:
            first.setdefault(device.rank, number)
    return np.array([first.get(r, UNKNOWN) for r in rank.tolist()], dtype=np.int64)


def _device_of_stage(trace: Trace, device: np.ndarray, stage: np.ndarray) -> np.ndarray:
    """The peer's device: of the stage's devices the one at the same place within its stage."""
    members: dict[int, list[int]] = {}
    for own_stage, own in trace.spans[["stage", "device"]].drop_duplicates().sort_values("device").to_numpy():
        members.setdefault(int(own_stage), []).append(int(own))
    place = {own: at for of_stage in members.values() for at, own in enumerate(of_stage)}
    peers = []
    for own, other in zip(device.tolist(), stage.tolist(), strict=True):
        candidates = members.get(other, [])
        peers.append(candidates[min(place[own], len(candidates) - 1)] if candidates else UNKNOWN)
    return np.array(peers, dtype=np.int64)


def _resolve_unnamed_peers(rows: pd.DataFrame, devices: int) -> pd.DataFrame:
    """Give a message without a peer the only other device, and a control message its ring neighbour.

    Engines hand control messages (sizes, requests, results) to the next stage and from the last
    to the first.
    """
    active = np.unique(rows["device"].to_numpy())
    if len(active) < 2:
        return rows
    following = dict(zip(active.tolist(), np.roll(active, -1).tolist(), strict=True))
    previous = {after: before for before, after in following.items()}
    unnamed = rows["kind"].isin(["send", "recv"]) & ((rows["source"] < 0) | (rows["target"] < 0))
    unnamed &= (rows["level"] == "host") | (devices == 2)
    out = rows.copy()
    sends, receives = unnamed & (rows["kind"] == "send"), unnamed & (rows["kind"] == "recv")
    out.loc[sends, "target"] = rows.loc[sends, "device"].map(following)
    out.loc[receives, "source"] = rows.loc[receives, "device"].map(previous)
    return out


def _within_microbatches(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with their microbatch as key, where both sides of an edge tell of microbatches."""
    named = rows["kind"].isin(["send", "recv"]) & (rows["microbatch"] >= 0)
    sides = rows["kind"].where(named).groupby([rows["source"], rows["target"]]).transform("nunique")
    keys = [f"microbatch {number}" for number in rows["microbatch"].tolist()]
    return rows.assign(key=rows["key"].mask(named & (sides == 2), keys))


def _pair_messages(rows: pd.DataFrame) -> list[Lost]:
    """Fill `pair` of sends and receives of devices in place; returns what could not be paired.

    Control messages on the host are left out: several channels share their name, so their order
    does not tell which belong together.
    """
    known = (rows["source"] >= 0) & (rows["target"] >= 0) & (rows["level"] == "device")
    messages = rows[rows["kind"].isin(["send", "recv"]) & known]
    edge = ["key", "source", "target"]
    sends = (messages["kind"] == "send").groupby([messages[c] for c in edge]).transform("sum")
    even = sends * 2 == messages.groupby(edge)["kind"].transform("size")
    lost: list[Lost] = []
    pair = rows["pair"].to_numpy().copy()
    for send, recv, part in (*_in_order(messages[even]), *_by_count(messages[~even], rows, lost)):
        if _possible(rows, send, recv):
            pair[send], pair[recv] = recv, send
        else:
            lost.append(_abstained(part, "their sizes differ or receives end before their sends begin"))
    rows["pair"] = pair
    return lost


_Matched = tuple[np.ndarray, np.ndarray, pd.DataFrame]


def _in_order(messages: pd.DataFrame) -> list[_Matched]:
    """Edges with as many sends as receives: the k-th of one belongs to the k-th of the other."""
    if not len(messages):
        return []
    edge = ["key", "source", "target"]
    order = messages.groupby([*edge, "kind"]).cumcount()
    keyed = messages.assign(order=order, row=messages.index)
    joined = keyed[keyed["kind"] == "send"].merge(
        keyed[keyed["kind"] == "recv"], on=[*edge, "order"], suffixes=("_send", "_recv")
    )
    flows = joined.groupby(["source", "target"], sort=False)
    return [(part["row_send"].to_numpy(), part["row_recv"].to_numpy(), part) for _, part in flows]


def _by_count(messages: pd.DataFrame, rows: pd.DataFrame, lost: list[Lost]) -> list[_Matched]:
    """Edges where one side recorded more: count from the end if that is possible, else from the begin."""
    found = []
    one_sided = Counter[str]()
    for _, part in messages.groupby(["key", "source", "target"], sort=False):
        send, recv = (part.index[part["kind"] == kind].to_numpy() for kind in ("send", "recv"))
        count = min(len(send), len(recv))
        if not count:
            one_sided[_edge(part)] += len(part)
            continue
        choices = {"last": (send[-count:], recv[-count:]), "first": (send[:count], recv[:count])}
        side = next((name for name, chosen in choices.items() if _possible(rows, *chosen)), "last")
        found.append((*choices[side], part))
        why = f"{_edge(part)}: {len(send)} sends and {len(recv)} receives, the {side} {count} paired"
        lost.append(Lost("operations without their other side", why, abs(len(send) - len(recv))))
    for edge, count in one_sided.items():
        why = f"{edge}: of their microbatch or group the other side was not recorded"
        lost.append(Lost("operations without their other side", why, count))
    return found


def _possible(rows: pd.DataFrame, send: np.ndarray, recv: np.ndarray) -> bool:
    """Whether the pairs carry the same bytes and nothing arrives before it was sent."""
    size = rows["bytes"].to_numpy()
    same = (size[send] == size[recv]) | (size[send] < 0) | (size[recv] < 0)
    arrives = rows["end_ns"].to_numpy()[recv] + CLOCK_SLACK_NS >= rows["begin_ns"].to_numpy()[send]
    return bool(same.all() and arrives.all())


def _abstained(part: pd.DataFrame, why: str) -> Lost:
    return Lost("operations not paired", f"{_edge(part)}: {why}", len(part))


def _edge(part: pd.DataFrame) -> str:
    return f"device {part['source'].iloc[0]} to {part['target'].iloc[0]}"


def _over_when_received(rows: pd.DataFrame) -> pd.DataFrame:
    """End the sends of stage spans no later than their receives end.

    Sends are asynchronous: an engine may look only in its next step whether one is over.
    """
    sends = rows.index[(rows["kind"] == "send") & (rows["microbatch"] >= 0) & (rows["pair"] >= 0)]
    received = rows["end_ns"].to_numpy()[rows.loc[sends, "pair"]]
    out = rows.copy()
    out.loc[sends, "end_ns"] = np.maximum(
        rows.loc[sends, "begin_ns"], np.minimum(rows.loc[sends, "end_ns"], received)
    )
    return out


def _pair_collectives(rows: pd.DataFrame) -> list[Lost]:
    """Fill `pair` of collectives in place: the k-th of a group on one rank meets the k-th on others."""
    collectives = rows[(rows["kind"] == "collective") & (rows["level"] == "device")]
    lost: list[Lost] = []
    pair = rows["pair"].to_numpy().copy()
    for key, part in collectives.groupby("key", sort=False, observed=True):
        counts = part.groupby("device").size()
        if len(counts) < 2:
            continue
        # Recordings end together more often than they begin together: count from the end.
        order = part.groupby("device").cumcount(ascending=False)
        common = order < int(counts.min())
        named = part.assign(order=order)[common]
        agree = named.groupby("order")["operation"].nunique() == 1
        if not bool(agree.all()):
            lost.append(
                Lost("collectives not paired", f"ranks of group {key!r} ran different ones", len(part))
            )
            continue
        first = named.assign(row=named.index).groupby("order")["row"].transform("min")
        pair[named.index] = first
        if counts.min() != counts.max():
            why = f"group {key!r}: {counts.min()} to {counts.max()} per rank, the last {counts.min()} paired"
            lost.append(Lost("operations without their other side", why, int((counts - counts.min()).sum())))
    rows["pair"] = pair
    return lost


def _unseen_peers(trace: Trace, rows: pd.DataFrame) -> list[Lost]:
    message = rows["kind"].isin(["send", "recv"]) & (rows["level"] == "device")
    unseen = int((message & ((rows["source"] < 0) | (rows["target"] < 0))).sum())
    if not unseen:
        return []
    why = "their other side is not in this recording; all beyond the shortest of a kind counts as waiting"
    return [Lost("sends and receives whose peer is unknown", why, unseen)]
