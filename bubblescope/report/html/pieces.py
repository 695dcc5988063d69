"""What the timeline shows: each lane cut wherever its state, its microbatch or the culprit changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from bubblescope.analyzers import intervals as iv
from bubblescope.analyzers.results import STATES, Analysis
from bubblescope.trace.frames import UNKNOWN

Longs = npt.NDArray[np.int64]
Blame = tuple[int, int, str]

#: Columns of a table of pieces, all int64. A piece fills its time alone where `ns` is its length;
#: several that share a begin and an end share that time, `ns` each.
#: lane; state (position in STATES); begin_ns, end_ns (from the begin of the window); ns;
#: microbatch (UNKNOWN: none, or several); batch_ns (length of that microbatch's work in the lane, or 0);
#: blame (position in `Pieces.blames`, or UNKNOWN); count (of the pieces that were merged into it).
COLUMNS = ("lane", "state", "begin_ns", "end_ns", "ns", "microbatch", "batch_ns", "blame", "count")

_WORK = ("forward", "embed", "head", "sample")
_MOVES = ("recv", "send", "copy")
_MOVING = [STATES.index(state) for state in ("transfer", "starved", "blocked")]


@dataclass(frozen=True)
class Pieces:
    """table: in order of lane and time, with COLUMNS.

    blames: each waiting stage with a culprit stage (UNKNOWN where it is not known) and the cause.
    """

    table: pd.DataFrame
    blames: tuple[Blame, ...]


@dataclass(frozen=True)
class _Cover:
    """Disjoint stretches of time, each with a value."""

    times: iv.Intervals
    values: Longs

    def at(self, begins: Longs) -> tuple[Longs, Longs]:
        """Value and length of the stretch that each time lies in; UNKNOWN and 0 where there is none."""
        if not len(self.times):
            return np.full(len(begins), UNKNOWN), np.zeros(len(begins), dtype=np.int64)
        row = np.searchsorted(self.times[:, 0], begins, side="right") - 1
        inside = (row >= 0) & (begins < self.times[row, 1])
        length = self.times[row, 1] - self.times[row, 0]
        return np.where(inside, self.values[row], UNKNOWN), np.where(inside, length, 0)


def pieces(analysis: Analysis, lanes: Sequence[int]) -> Pieces:
    """The pieces of the given devices, a lane each."""
    culprits = analysis.culprits
    blames = tuple(dict.fromkeys(_keys(culprits)))
    stage_of = {stage.devices[0]: stage.stage for stage in analysis.stages}
    tables = [
        _lane(
            analysis.timeline[analysis.timeline["device"] == device],
            analysis.spans[analysis.spans["device"] == device],
            _blamed(culprits[culprits["waiting_stage"] == stage_of.get(device, UNKNOWN)], blames),
        ).assign(lane=lane)
        for lane, device in enumerate(lanes)
    ]
    if not tables:
        return Pieces(pd.DataFrame({name: np.empty(0, dtype=np.int64) for name in COLUMNS}), blames)
    table = pd.concat(tables, ignore_index=True)
    table[["begin_ns", "end_ns"]] -= analysis.window_ns[0]
    return Pieces(table[list(COLUMNS)].astype(np.int64), blames)


def _keys(culprits: pd.DataFrame) -> Iterator[Blame]:
    columns = (culprits[name].tolist() for name in ("waiting_stage", "culprit_stage", "cause"))
    return zip(*columns, strict=True)


def _blamed(culprits: pd.DataFrame, blames: Sequence[Blame]) -> _Cover:
    position = {key: number for number, key in enumerate(blames)}
    values = np.array([position[key] for key in _keys(culprits)], dtype=np.int64)
    return _Cover(_times(culprits), values)


def _batches(spans: pd.DataFrame, kinds: Sequence[str]) -> _Cover:
    """Which microbatch is at work when; where several are, the one that began first."""
    chosen = spans[spans["kind"].isin(kinds)]
    rows, times = iv.first_come(chosen["begin_ns"].to_numpy(), chosen["end_ns"].to_numpy())
    return _Cover(times, chosen["microbatch"].to_numpy()[rows])


def _lane(timeline: pd.DataFrame, spans: pd.DataFrame, blamed: _Cover) -> pd.DataFrame:
    states = _Cover(_times(timeline), timeline["state"].cat.codes.to_numpy().astype(np.int64))
    work, moves = _batches(spans, _WORK), _batches(spans, _MOVES)
    cuts = np.sort(np.concatenate([cover.times.ravel() for cover in (states, work, moves, blamed)]))
    state, _ = states.at(cuts)
    in_work, batch_ns = work.at(cuts)
    in_move, _ = moves.at(cuts)
    batch = np.where((in_work < 0) & np.isin(state, _MOVING), in_move, in_work)
    blame, _ = blamed.at(cuts)
    attributes = np.stack([state, batch, batch_ns, blame])
    # A cut that changes nothing is none.
    kept = np.append(True, (attributes[:, 1:] != attributes[:, :-1]).any(axis=0))[: len(cuts)]
    begins = cuts[kept]
    ends = np.append(begins[1:], cuts[-1:])[: len(begins)]
    state, batch, batch_ns, blame = attributes[:, kept]
    table = pd.DataFrame(
        {
            "state": state, "begin_ns": begins, "end_ns": ends, "ns": ends - begins,
            "microbatch": batch, "batch_ns": batch_ns, "blame": blame, "count": 1,
        }
    )  # fmt: skip
    return table[(table["state"] >= 0) & (table["ns"] > 0)]


def _times(rows: pd.DataFrame) -> iv.Intervals:
    return rows[["begin_ns", "end_ns"]].to_numpy().astype(np.int64)
