"""For whom each stage waited, and what that one did meanwhile.

A wait is followed from stage to stage until somebody is found who did not wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bubblescope.analyzers import intervals as iv
from bubblescope.analyzers.pipeline import Pipeline
from bubblescope.analyzers.results import BLAME, CULPRITS
from bubblescope.analyzers.states import with_copies
from bubblescope.trace import frames
from bubblescope.trace.frames import UNKNOWN

_WAITING = ("starved", "blocked")
_OWN = ("compute", "transfer", "state", "host")


@dataclass(frozen=True)
class _Behaviour:
    """One device's timeline, and for its waiting the operation that each moment waits on."""

    times: iv.Intervals
    state: NDArray[np.object_]
    wait_times: iv.Intervals
    awaited: NDArray[np.int64]
    hint: NDArray[np.object_]


def culprits(
    timeline: pd.DataFrame,
    waits: pd.DataFrame,
    pipeline: Pipeline,
    leaders: Sequence[int],
    copies: iv.Intervals,
) -> pd.DataFrame:
    """Who is to blame for each starved, blocked and host stretch of the leading devices (schema CULPRITS).

    copies: when states of sequences were copied.
    """
    behaviours = {
        int(device): _behaviour(int(device), timeline, waits, copies)
        for device in timeline["device"].unique()
    }
    parts: list[pd.DataFrame] = []
    for device in leaders:
        stage = pipeline.stage_of[device]
        assert stage is not None
        behaviour = behaviours[device]
        waiting = behaviour.times[np.isin(behaviour.state, _WAITING)]
        found = _resolve(device, waiting, behaviours, pipeline)
        found.extend((stage, own, behaviour.times[behaviour.state == own]) for own in ("host", "state"))
        parts.extend(_rows(stage, *verdict) for verdict in found)
    if not parts:
        return frames.empty(CULPRITS)
    rows = pd.concat(parts, ignore_index=True)
    return frames.checked(CULPRITS, rows.sort_values(["waiting_stage", "begin_ns"], kind="stable"))


def blame(culprits: pd.DataFrame) -> pd.DataFrame:
    """Waiting time of each stage by culprit and cause (schema BLAME), the longest first."""
    keys = ["waiting_stage", "culprit_stage", "cause"]
    pieces = culprits[keys].assign(ns=culprits["end_ns"] - culprits["begin_ns"])
    summed = pieces.groupby(keys, observed=True)["ns"].sum().reset_index()
    return frames.checked(BLAME, summed.sort_values(["waiting_stage", "ns"], ascending=[True, False]))


def _rows(stage: int, culprit: int, cause: str, times: iv.Intervals) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "waiting_stage": stage,
            "culprit_stage": culprit,
            "cause": cause,
            "begin_ns": times[:, 0],
            "end_ns": times[:, 1],
        }
    )


def _behaviour(device: int, timeline: pd.DataFrame, waits: pd.DataFrame, copies: iv.Intervals) -> _Behaviour:
    times, state = with_copies(timeline[timeline["device"] == device], copies)
    parts: list[tuple[iv.Intervals, NDArray[np.int64], NDArray[np.object_]]] = []
    for kind in _WAITING:
        pending = waits[(waits["device"] == device) & (waits["state"] == kind)]
        rows, shares = iv.first_come(pending["begin_ns"].to_numpy(), pending["end_ns"].to_numpy())
        share, _, common = iv.overlaps(shares, times[state == kind])
        chosen = pending.iloc[rows[share]]
        parts.append((common, chosen["awaited"].to_numpy(), chosen["hint"].to_numpy()))
    wait_times = np.concatenate([part[0] for part in parts])
    order = np.argsort(wait_times[:, 0], kind="stable")
    return _Behaviour(
        times,
        state,
        wait_times[order],
        np.concatenate([part[1] for part in parts])[order],
        np.concatenate([part[2] for part in parts])[order],
    )


def _resolve(
    device: int, waiting: iv.Intervals, behaviours: dict[int, _Behaviour], pipeline: Pipeline
) -> list[tuple[int, str, iv.Intervals]]:
    """Culprit stage and cause of every part of the waiting time."""
    found: list[tuple[int, str, iv.Intervals]] = []
    pieces = [(device, UNKNOWN, waiting)]
    for _ in range(len(behaviours) + 1):
        following: dict[tuple[int, int], list[iv.Intervals]] = {}
        for current, first, times in pieces:
            behaviour = behaviours[current]
            _, row, common = iv.overlaps(times, behaviour.wait_times)
            for key in set(zip(behaviour.awaited[row].tolist(), behaviour.hint[row].tolist(), strict=True)):
                awaited, hint = key
                part = common[(behaviour.awaited[row] == awaited) & (behaviour.hint[row] == hint)]
                blamed = first if first != UNKNOWN else awaited
                for verdict, next_times in _judge(current, awaited, hint, part, behaviours, pipeline):
                    if verdict is None:
                        following.setdefault((awaited, blamed), []).append(next_times)
                    elif len(next_times):
                        found.append((*verdict, next_times))
        pieces = [(awaited, first, iv.merge(*parts)) for (awaited, first), parts in following.items()]
        pieces = [piece for piece in pieces if len(piece[2])]
        if not pieces:
            return found
    found.extend((_stage(pipeline, first), "follow_on", times) for _, first, times in pieces)
    return found


def _judge(
    waiter: int,
    awaited: int,
    hint: str,
    times: iv.Intervals,
    behaviours: dict[int, _Behaviour],
    pipeline: Pipeline,
) -> list[tuple[tuple[int, str] | None, iv.Intervals]]:
    """Verdicts on `times`; None in place of one where the awaited device waited itself."""
    if hint == "tp_skew":
        return [((_stage(pipeline, waiter), "tp_skew"), times)]
    if hint == "token":
        return [((_stage(pipeline, awaited), "token"), times)]
    if awaited not in behaviours:
        return [((_stage(pipeline, awaited), "unknown"), times)]
    other = behaviours[awaited]
    stage = _stage(pipeline, awaited)
    verdicts: list[tuple[tuple[int, str] | None, iv.Intervals]] = []
    rest = times
    for state in _OWN:
        held = other.times[other.state == state]
        verdicts.append(((stage, state), iv.intersect(rest, held)))
        rest = iv.subtract(rest, held)
    waited = other.times[np.isin(other.state, _WAITING)]
    verdicts.append((None, iv.intersect(rest, waited)))
    verdicts.append(((stage, "unknown"), iv.subtract(rest, waited)))
    return verdicts


def _stage(pipeline: Pipeline, device: int) -> int:
    stage = pipeline.stage_of[device] if device >= 0 else None
    return UNKNOWN if stage is None else stage
