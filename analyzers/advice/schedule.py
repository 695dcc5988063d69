"""What holds for any split: when work may begin, and what a stage and a link take in between.

Estimated from the recording by medians: from one microbatch to the next on a stage, from the end on
one stage to the begin on the next, and how many microbatches the engine has in the pipeline at once.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from bubblescope.analyzers.advice.cost import Floats
from bubblescope.analyzers.advice.occupancy import Flags, Longs
from bubblescope.analyzers.advice.prompts import Prefill

#: A gap that nothing explains, longer than this share of a prompt's prefill, is a pause.
PAUSE_SHARE = 0.02
#: A limit on what is in flight is believed if it explains this share of the first stage's begins, and
#: leaves unexplained at most this share of its gaps.
LIMIT_SHARE, GAP_LEFT = 0.5, 0.5
#: What a stage made last but one is taken when the next stage has ended the microbatch before that.
_HANDED_OVER = 2
#: So many microbatches after a hiccup may still be out of step.
_AFTERMATH = 2
#: A stage that waits for the next to take its output never, but for so few begins, goes on before.
_KEPT_TO = 0.95


@dataclass(frozen=True)
class Schedule:
    """S stages × M microbatches in P prompts; times in ns.

    opens: (M,), true where the pipeline was empty: a stretch begins, and times count from there.
    release: (M,), earliest begin on the first stage.
    pause_ns: (S, M), how much later than it could each began. hiccup_ns: (S, M), how much longer than
        it should each took. Both happened by accident and belong to no split.
    launch_ns: (S,), from one microbatch's end to the next one's begin on a stage.
    transfer_ns: (S,), from the end on the stage before to the begin on this one; for the first stage
        from the end, on the last, of the microbatch that had to leave before.
    in_flight: how many microbatches may be in the pipeline; None without a limit.
    handover_ns: (S,), where a stage goes on only once the next has taken what it made: from when the
        next is free to take it to the begin; -inf where nothing shows that it waits.
    first, last, arrival: (P,), columns of each prompt, and when it was there to be begun.
    """

    opens: Flags
    release: Floats
    pause_ns: Floats
    hiccup_ns: Floats
    launch_ns: Floats
    transfer_ns: Floats
    in_flight: int | None
    handover_ns: Floats
    first: Longs
    last: Longs
    arrival: Floats

    def opened(self) -> Longs:
        """(P,): the first column of the stretch that each prompt is in."""
        columns = np.arange(len(self.opens))
        return np.asarray(np.maximum.accumulate(np.where(self.opens, columns, 0))[self.first])

    def only(self, prompts: Longs) -> tuple[Schedule, Longs]:
        """The same for some of the prompts, and which microbatches are left: those of their stretches."""
        stretch = np.cumsum(self.opens) - 1
        columns = np.flatnonzero(np.isin(stretch, stretch[self.first[prompts]]))
        left = Schedule(
            opens=self.opens[columns],
            release=self.release[columns],
            pause_ns=self.pause_ns[:, columns],
            hiccup_ns=self.hiccup_ns[:, columns],
            launch_ns=self.launch_ns,
            transfer_ns=self.transfer_ns,
            in_flight=self.in_flight,
            handover_ns=self.handover_ns,
            first=np.searchsorted(columns, self.first[prompts]),
            last=np.searchsorted(columns, self.last[prompts]),
            arrival=self.arrival[prompts],
        )
        return left, columns

    def disturbed(self) -> Flags:
        """(P,): prompts that a pause or a hiccup fell into."""
        sudden = ((self.pause_ns + self.hiccup_ns) > 0).any(axis=0)
        before = np.concatenate(([0], np.cumsum(sudden)))
        return np.asarray(before[self.last + 1] > before[self.first])


def schedule(prefill: Prefill, hiccup_ns: Floats, in_flight: int | None) -> Schedule:
    """The schedule of a recording. in_flight: the engine's limit as it told, None where it did not."""
    begin, end = prefill.work.begin_ns.astype(np.float64), prefill.work.end_ns.astype(np.float64)
    start = np.concatenate([np.full(high - low, low) for low, high in prefill.stretches])
    opens = start == np.arange(len(start))
    first = np.array([prompt.first for prompt in prefill.prompts])
    heads = np.zeros(len(start), dtype=np.bool_)
    heads[first] = True

    free = np.column_stack((np.full(len(end), -np.inf), end[:, :-1]))
    free[:, opens] = -np.inf
    there = np.vstack((np.full(len(start), -np.inf), end[:-1]))
    shortest = _shortest_pause(prefill, start)
    hiccup_ns = np.where(hiccup_ns > shortest, hiccup_ns, 0)
    calm = _calm(hiccup_ns)
    taken = np.vstack([_left(of_next, start, _HANDED_OVER) for of_next in end[1:]] + [there[0]])
    handover = _handover(begin, np.maximum(free, there), taken, heads, calm)
    taken += handover[:, np.newaxis]
    limit = _limit(begin[0], end[-1], np.maximum(free, taken)[0], start, heads, in_flight)
    there[0] = _left(end[-1], start, limit)
    launch, transfer = _medians(begin, free, there, taken, heads, calm)

    expected = np.maximum(free + launch[:, np.newaxis], there + transfer[:, np.newaxis])
    expected = np.maximum(expected, taken)
    late = np.where(np.isfinite(expected), begin - expected, 0)
    late = np.where(late > shortest, late, 0)
    since = begin[0] - begin[0, start]
    release = np.where(heads & (late[0] > 0), since, 0)
    late[0, heads] = 0
    return Schedule(
        opens=opens,
        release=release,
        pause_ns=late,
        hiccup_ns=hiccup_ns,
        launch_ns=launch,
        transfer_ns=transfer,
        in_flight=limit,
        handover_ns=handover,
        first=first,
        last=np.array([prompt.last for prompt in prefill.prompts]),
        arrival=_arrivals(prefill, release, begin[0], start),
    )


def _calm(hiccup_ns: Floats) -> Flags:
    """(M,): microbatches that show what is usual, as no hiccup fell into them or shortly before; all of them,
    where those are fewer than half."""
    count = hiccup_ns.shape[1]
    calm = np.ones(count, dtype=np.bool_)
    for column in np.flatnonzero(hiccup_ns.any(axis=0)).tolist():
        calm[column : column + _AFTERMATH + 1] = False
    return calm if 2 * calm.sum() >= count else np.ones(count, dtype=np.bool_)


def _left(last_end: Floats, start: Longs, limit: int | None) -> Floats:
    """(M,): when the microbatch that has to leave before each one left; -inf where none has to."""
    left = np.full(len(last_end), -np.inf)
    if limit is not None:
        columns = np.arange(len(last_end))
        held = columns - limit >= start
        left[held] = last_end[columns[held] - limit]
    return left


def _handover(begin: Floats, ready: Floats, taken: Floats, heads: Flags, calm: Flags) -> Floats:
    """(S,): `handover_ns` of a schedule.

    ready: (S, M), when each could begin otherwise. taken: (S, M), when the next stage is free to take
    the output before, -inf where none is left to be taken.
    """
    known = np.isfinite(taken)
    late = known & (taken > ready) & calm
    late[0, heads] = False
    if late.sum() < 2 or (begin >= taken)[known].mean() < _KEPT_TO:
        return np.full(len(begin), -np.inf)
    if np.median((begin - taken)[late]) > GAP_LEFT * np.median((begin - ready)[late]):
        return np.full(len(begin), -np.inf)
    usual = np.median((begin - taken)[late])
    own = [np.median((begin - taken)[row][of] if of.any() else usual) for row, of in enumerate(late)]
    return np.array([*own[:-1], -np.inf], dtype=np.float64)


def _limit(
    first_begin: Floats, last_end: Floats, free: Floats, start: Longs, heads: Flags, told: int | None
) -> int | None:
    """As the engine told, if the recording keeps to it; else the most that was ever in flight, if the
    first stage mostly waited for one of them to leave."""
    ends = last_end.tolist()
    most = 1 + max(
        column - bisect_right(ends, begin, low, column)
        for column, (begin, low) in enumerate(zip(first_begin.tolist(), start.tolist(), strict=True))
    )
    if told is not None and most <= told:
        return told
    left = _left(last_end, start, most)
    held = np.isfinite(left) & ~heads
    waited = held & (left > free)
    if not waited.any() or waited.sum() < LIMIT_SHARE * held.sum():
        return None
    gap, unexplained = np.median((first_begin - free)[waited]), np.median((first_begin - left)[waited])
    return most if unexplained <= GAP_LEFT * gap else None


def _medians(
    begin: Floats, free: Floats, there: Floats, taken: Floats, heads: Flags, calm: Flags
) -> tuple[Floats, Floats]:
    """Per stage: the usual delay after the stage became free, and after the input arrived."""
    stages = len(begin)
    launch, transfer = np.full(stages, np.nan), np.zeros(stages)
    for stage in range(stages):
        last = np.maximum(free[stage], there[stage])
        usual = np.isfinite(last) & (last >= taken[stage]) & ~(heads & (stage == 0)) & calm
        own = usual & (free[stage] > there[stage])
        if own.any():
            launch[stage] = max(float(np.median((begin - free)[stage, own])), 0)
        if (usual & ~own).any():
            transfer[stage] = max(float(np.median((begin - there)[stage, usual & ~own])), 0)
    # A stage that always waits for its input does not show what it needs in between: as the others.
    known = launch[np.isfinite(launch)]
    return np.where(np.isfinite(launch), launch, np.median(known) if len(known) else 0), transfer


def _shortest_pause(prefill: Prefill, start: Longs) -> Floats:
    """(M,): what counts as a pause in the stretch of each microbatch."""
    shortest: dict[int, int] = {}
    for prompt in prefill.prompts:
        low, makespan = int(start[prompt.first]), prefill.makespan_ns(prompt)
        shortest[low] = min(shortest.get(low, makespan), makespan)
    return PAUSE_SHARE * np.array([shortest[low] for low in start.tolist()], dtype=np.float64)


def _arrivals(prefill: Prefill, release: Floats, first_begin: Floats, start: Longs) -> Floats:
    """(P,): one that found the pipeline free arrived when it began, another when its request did."""
    found = []
    for prompt in prefill.prompts:
        low, arrived = start[prompt.first], release[prompt.first]
        if not arrived and prompt.arrival_ns is not None:
            since = prompt.arrival_ns - first_begin[low]
            arrived = min(max(since, 0.0), first_begin[prompt.first] - first_begin[low])
        found.append(float(arrived))
    return np.array(found)
