"""The best split of the layers over the stages, in the order that the devices have.

Two things count alike: how long a prompt takes, simulated, and how long the busiest stage works,
which bounds how many prompts can follow each other. The best split has the least product of both, so
a percent of the one is given for a percent of the other. A prompt's time alone would put nearly all
layers on the fastest device wherever prompts are short.

The split with the shortest busiest stage comes from dynamic programming. From there branch and bound
finds the best one and proves it: a branch is cut where even its bound is worse. The bounds come from
dynamic programming too; a prompt's is the longest path through the stages still open, each path
with the split that suits it best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bubblescope.analyzers.advice.cost import CostModel, Floats
from bubblescope.analyzers.advice.lanes import Lanes, lane_cells
from bubblescope.analyzers.advice.occupancy import Flags
from bubblescope.analyzers.advice.schedule import Schedule
from bubblescope.analyzers.advice.simulator import simulate

#: The effort of a search, in numbers computed in an array: one that needs more (about a second) is
#: given up, and what it has found is not proven to be the best.
MOST_NUMBERS = 100_000_000
#: What else takes time, in the same unit: a microbatch simulated on a stage, a branch, a number stored.
_SIMULATED, _BRANCHED, _STORED = 100, 10_000, 5
#: Splits that differ by less are equal.
_EQUAL = 1e-9


@dataclass(frozen=True)
class Split:
    """layers: per stage. proven: no allowed split is better; else none better was found."""

    layers: tuple[int, ...]
    proven: bool


def allowed_ranges(
    stages: int, layers: int, *, no_cut_before: Sequence[int] = (), most: Sequence[int] | None = None
) -> Flags:
    """(S, L + 1, L + 1): whether a stage may hold the layers from the second index up to the third.

    no_cut_before: layers that have to stay with the one before. most: layers that each stage has
    memory for.
    """
    begin, end = np.arange(layers + 1)[:, np.newaxis], np.arange(layers + 1)[np.newaxis, :]
    limits = np.full(stages, layers) if most is None else np.asarray(most)
    one = (begin < end) & ~np.isin(begin, no_cut_before) & ~np.isin(end, no_cut_before)
    allowed = one & (end - begin <= limits[:, np.newaxis, np.newaxis])
    allowed[0, 1:] = False
    allowed[-1, :, :layers] = False
    return np.asarray(allowed)


def best_split(model: CostModel, schedule: Schedule, allowed: Flags, recorded: Sequence[int]) -> Split | None:
    """The best split for the prompts of a schedule; of equals the recorded one. None if none is allowed."""
    busy = _busy(model, allowed)
    shortest = shortest_bottleneck(busy)
    if shortest is None:
        return None
    search = _Search(model, schedule, busy)
    for layers in (tuple(recorded), shortest):
        search.consider(layers)
    search.exhaust()
    return Split(search.best, proven=search.numbers <= MOST_NUMBERS)


def score(model: CostModel, schedule: Schedule, layers: Sequence[int]) -> float:
    """What the best split has least of: mean time from a prompt's arrival to its end, in ns, times the
    work of the busiest stage over all microbatches, in ns."""
    times = model.times_ns(layers)
    return float(simulate(schedule, times).served_ns.mean() * times.sum(axis=1).max())


def _busy(model: CostModel, allowed: Flags) -> Floats:
    """(S, L + 1, L + 1): work in ns of a stage that holds the layers; infinite where it may not."""
    size = allowed.shape[1]
    held = np.arange(size)[np.newaxis, :] - np.arange(size)[:, np.newaxis]
    per_layer, ends = (
        each.sum(axis=1)[:, np.newaxis, np.newaxis] for each in (model.per_layer_ns, model.ends_ns)
    )
    return np.where(allowed, ends + held * per_layer, np.inf)


def shortest_bottleneck(busy: Floats) -> tuple[int, ...] | None:
    """The split whose busiest stage works for the shortest time: (S, L + 1, L + 1), see `_busy`."""
    best = np.full(busy.shape[1], np.inf)
    best[0] = 0
    begins = []
    for of_stage in busy:
        longest = np.maximum(best[:, np.newaxis], of_stage)
        begins.append(longest.argmin(axis=0))
        best = longest.min(axis=0)
    if not np.isfinite(best[-1]):
        return None
    cuts = [len(best) - 1]
    for begin in reversed(begins):
        cuts.append(int(begin[cuts[-1]]))
    return tuple(end - begin for begin, end in zip(cuts[:0:-1], cuts[-2::-1], strict=True))


@dataclass
class _Search:
    """Branch and bound over the stages in order. `best` is the best split so far, `numbers` the effort."""

    model: CostModel
    schedule: Schedule
    busy: Floats
    best: tuple[int, ...] = ()
    score: float = float("inf")
    numbers: int = 0

    def consider(self, layers: tuple[int, ...]) -> None:
        """Simulate a split, if it is allowed, and keep it if it is better."""
        cuts = np.concatenate(([0], np.cumsum(layers)))
        if not np.isfinite(self.busy[np.arange(len(layers)), cuts[:-1], cuts[1:]]).all():
            return
        self.numbers += _SIMULATED * self.model.per_layer_ns.size
        found = score(self.model, self.schedule, layers)
        if found < self.score * (1 - _EQUAL):
            self.best, self.score = layers, found

    def exhaust(self) -> None:
        """Try every split that can be better, until it becomes too many."""
        stages, size, _ = self.busy.shape
        cells = lane_cells(self.schedule)
        self.numbers += _STORED * stages * size * cells
        if self.numbers > MOST_NUMBERS:
            return
        lanes = Lanes(self.model, self.schedule, size - 1)
        promising = self._promising(lanes)
        self.numbers += int(promising.sum()) * cells
        if self.numbers <= MOST_NUMBERS:
            open_busy = np.where(promising, self.busy, np.inf)
            bounds = _Bounds(lanes, open_busy, _tails(lanes, promising), _busiest_after(open_busy))
            self._branch(bounds, (), 0.0, lanes.release)

    def _promising(self, lanes: Lanes) -> Flags:
        """(S, L + 1, L + 1): ranges not so long that their stage alone makes every split worse."""
        size = self.busy.shape[1]
        held = np.maximum(np.arange(size)[np.newaxis, :] - np.arange(size)[:, np.newaxis], 0)
        alone = np.stack([lanes.alone(stage, np.arange(size)) for stage in range(len(self.busy))])
        allowed = np.isfinite(self.busy)
        return np.asarray(allowed & (alone[:, held] * np.where(allowed, self.busy, 0) < self.score))

    def _branch(self, bounds: _Bounds, layers: tuple[int, ...], busiest: float, ready: Floats) -> None:
        """Go on from the stages decided so far.

        busiest: the work of the busiest of them. ready: (P, M), when the next may begin.
        """
        stage, begin = len(layers), sum(layers)
        cuts = np.flatnonzero(np.isfinite(bounds.busy[stage, begin]))
        ends = bounds.lanes.ends(stage, cuts - begin, ready)
        self.numbers += _BRANCHED + ends.size
        busiest_so_far = np.maximum(busiest, bounds.busy[stage, begin, cuts])
        bound = bounds.lanes.served(ends, bounds.after[stage, cuts]) * np.maximum(
            busiest_so_far, bounds.busiest_after[stage, cuts]
        )
        for choice in np.argsort(bound, kind="stable"):
            if bound[choice] >= self.score * (1 - _EQUAL) or self.numbers > MOST_NUMBERS:
                return
            longer = (*layers, int(cuts[choice] - begin))
            if len(longer) == len(bounds.busy):
                self.consider(longer)
            else:
                at = bounds.lanes.ready(stage, ends[choice])
                self._branch(bounds, longer, float(busiest_so_far[choice]), at)


@dataclass(frozen=True)
class _Bounds:
    """What any split of the layers still open costs at least.

    busy: (S, L + 1, L + 1), infinite where a range is not worth trying. after: (S, L + 1, P, M), time from
    an end on a stage, with so many layers done, to the prompt's. busiest_after: (S, L + 1), the work
    of the busiest stage after it.
    """

    lanes: Lanes
    busy: Floats
    after: Floats
    busiest_after: Floats


def _tails(lanes: Lanes, promising: Flags) -> Floats:
    stages, size, _ = promising.shape
    after = np.full((stages, size, *lanes.release.shape), np.inf)
    after[-1, -1] = lanes.nothing_left
    for stage in reversed(range(1, stages)):
        for begin in np.flatnonzero(promising[stage].any(axis=1)):
            cuts = np.flatnonzero(promising[stage, begin])
            least = lanes.tail(stage, cuts - begin, after[stage, cuts]).min(axis=0)
            after[stage - 1, begin] = lanes.ready(stage - 1, least)
    return after


def _busiest_after(busy: Floats) -> Floats:
    after = np.full(busy.shape[:2], np.inf)
    after[-1, -1] = 0
    for stage in reversed(range(1, len(busy))):
        after[stage - 1] = np.maximum(busy[stage], after[stage]).min(axis=1)
    return after
