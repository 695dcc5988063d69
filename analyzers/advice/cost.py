"""What a layer costs on each stage for each microbatch, fitted from the recording.

Per layer a microbatch of n tokens after a prefix of p takes `a + b·n + c·n·(p + n/2) + d·(p + n)²`: a
fixed part, one for every token, one for every pair of tokens that attention has to look at, and one
for attention that goes over the whole prompt again with every chunk, as plain implementations do.
What the recording cannot tell apart from layers (an embedding without a span of its own, say)
counts as theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations

import numpy as np
from numpy.typing import NDArray

from bubblescope.analyzers.advice.occupancy import CannotTellError, Flags, Longs, Occupancy

Floats = NDArray[np.float64]

#: With fewer microbatches of prefill nothing is fitted.
FEWEST = 4
#: A microbatch this share off the fit, and this many median deviations, is a hiccup and left out.
HICCUP_SHARE, HICCUP_DEVIATIONS = 0.5, 6.0
#: By at most this share does the clock of a device fall that never waits, against one that mostly does.
CLOCK_FALL = 0.25
#: Student's t at 97.5 % for 1, 2, … degrees of freedom; 2 beyond.
_STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)
_ROUNDS = 20
#: Columns that are nearly the same are told apart by noise alone.
_WORST_CONDITION = 1e10


@dataclass(frozen=True)
class Fit:
    """A fit without negative coefficients to n values.

    fitted: (n,). hiccups: (n,), which values were left out. half_width: of the sum of the fitted, at
    95 %, relative to it. scatter: median relative distance of what was kept.
    """

    coefficients: tuple[float, ...]
    fitted: Floats
    hiccups: Flags
    half_width: float
    scatter: float


@dataclass(frozen=True)
class CostModel:
    """Times of S stages × M microbatches, linear in the layers of each stage.

    per_layer_ns, ends_ns: (S, M). hiccup_ns: (S, M), what single microbatches took beyond the fit.
    low, high: (S,), factors on per_layer_ns between which the truth lies at about 95 %.
    twin: (S,), whose cost a stage was given: its own, or that of a busier device of the same type.
    fits: (S,), of the prefill microbatches per layer, before twins were brought together.
    """

    per_layer_ns: Floats
    ends_ns: Floats
    hiccup_ns: Floats
    low: Floats
    high: Floats
    twin: tuple[int, ...]
    fits: tuple[Fit, ...]

    def only(self, columns: Longs) -> CostModel:
        """The same for some of the microbatches."""
        return replace(
            self,
            per_layer_ns=self.per_layer_ns[:, columns],
            ends_ns=self.ends_ns[:, columns],
            hiccup_ns=self.hiccup_ns[:, columns],
        )

    def times_ns(self, partition: Sequence[int], factor: Floats | float = 1.0) -> Floats:
        """(S, M): how long each stage is occupied by each microbatch under a split."""
        layers = np.asarray(partition, dtype=np.float64) * factor
        return self.ends_ns + layers[:, np.newaxis] * self.per_layer_ns


def fit_cost(work: Occupancy, layers: Sequence[int], device_types: Sequence[str | None]) -> CostModel:
    """Fit every stage on its own, then bring a stage that waits to the cost of its busiest twin.

    layers: what each stage held. device_types: of each stage's device, None where unknown.
    Raises CannotTellError with fewer than FEWEST microbatches of prefill.
    """
    if (~work.decode).sum() < FEWEST:
        count = int((~work.decode).sum())
        raise CannotTellError(
            f"microbatches of prefill recorded: {count}; fewer than {FEWEST} tell no cost per layer"
        )
    held = np.asarray(layers, dtype=np.float64)[:, np.newaxis]
    measured = work.layers_ns / held
    per_layer, excess = np.zeros(measured.shape), np.zeros(measured.shape)
    fits = []
    for stage, values in enumerate(measured):
        of_groups = [(group, robust_fit(columns, values[group])) for group, columns in _groups(work)]
        for group, fit in of_groups:
            per_layer[stage, group] = fit.fitted
            excess[stage, group] = np.where(fit.hiccups, np.maximum(values[group] - fit.fitted, 0), 0)
        fits.append(of_groups[0][1])
    own = CostModel(
        per_layer_ns=per_layer,
        ends_ns=work.ends_ns.astype(np.float64),
        hiccup_ns=excess * held,
        low=np.array([1 - min(fit.half_width, 0.9) for fit in fits]),
        high=np.array([1 + fit.half_width for fit in fits]),
        twin=tuple(range(len(layers))),
        fits=tuple(fits),
    )
    return _at_full_load(own, work, device_types)


def _groups(work: Occupancy) -> list[tuple[Flags, Floats]]:
    """Microbatches that are fitted together, and what on: those of known size, other prefill, decode.

    Of the last two all are taken to be alike.
    """
    sized = ~work.decode & (work.tokens > 0) & (work.prefix >= 0)
    if sized.sum() < FEWEST:
        sized[:] = False
    groups = (
        (sized, _size_columns(work)),
        (~work.decode & ~sized, np.ones((len(sized), 1))),
        (work.decode, np.ones((len(sized), 1))),
    )
    return [(group, columns[group]) for group, columns in groups if group.any()]


def _size_columns(work: Occupancy) -> Floats:
    """(M, 4): what a, b, c and d are multiplied with."""
    n, p = work.tokens.astype(np.float64), work.prefix.astype(np.float64)
    return np.column_stack((np.ones(len(n)), n, n * (p + n / 2), (p + n) ** 2))


def _at_full_load(model: CostModel, work: Occupancy, device_types: Sequence[str | None]) -> CostModel:
    """A better split keeps every stage busy, and a busy device is hotter and clocks lower.

    So a stage that waits is given the cost of its busiest twin, if a lower clock can explain the
    difference; without such a twin it may still slow down by as much as it waited.
    """
    busy = (work.layers_ns + work.ends_ns).sum(axis=1).astype(np.float64)
    cost = model.per_layer_ns[:, ~work.decode].sum(axis=1)
    per_layer, low, high = model.per_layer_ns.copy(), model.low.copy(), model.high.copy()
    twin = list(model.twin)
    for stage, own_type in enumerate(device_types):
        twins = [row for row, other in enumerate(device_types) if other == own_type is not None]
        busiest = max(twins, key=lambda row: busy[row], default=stage)
        if busiest != stage and (1 - CLOCK_FALL) * cost[busiest] <= cost[stage] < cost[busiest]:
            per_layer[stage] = model.per_layer_ns[busiest]
            low[stage] = model.low[stage] * cost[stage] / cost[busiest]
            high[stage] = model.high[busiest]
            twin[stage] = busiest
        else:
            high[stage] *= 1 + CLOCK_FALL * (1 - busy[stage] / max(busy.max(), 1))
    return replace(model, per_layer_ns=per_layer, low=low, high=high, twin=tuple(twin))


def robust_fit(columns: Floats, values: Floats) -> Fit:
    """Least squares of `values` (n,) on `columns` (n, k), without what lies far off.

    What is far off is judged by least absolute deviations, which a few wild values do not move.
    """
    weights = np.ones(len(values))
    floor = 1e-6 * max(float(np.median(np.abs(values))), 1e-9)
    for _ in range(_ROUNDS):
        off = np.abs(values - columns @ _non_negative(columns, values, weights))
        weights = 1 / np.maximum(off, floor)
    typical = columns @ _non_negative(columns, values, weights)
    off = np.abs(values - typical)
    hiccups = off > np.maximum(HICCUP_SHARE * typical, HICCUP_DEVIATIONS * np.median(off))
    kept = ~hiccups
    coefficients = _non_negative(columns, values, kept.astype(np.float64))
    fitted = columns @ coefficients
    off = np.abs(values - fitted)[kept]
    return Fit(
        coefficients=tuple(coefficients.tolist()),
        fitted=fitted,
        hiccups=hiccups,
        half_width=_half_width(columns, coefficients, kept, off),
        scatter=float(np.median(off / np.maximum(fitted[kept], floor))),
    )


def _non_negative(columns: Floats, values: Floats, weights: Floats) -> Floats:
    """Weighted least squares over coefficients of at least 0: the best of all choices of columns."""
    scale = np.maximum(np.abs(columns).max(axis=0), 1e-30)
    scaled = columns / scale
    gram, moment = scaled.T @ (scaled * weights[:, np.newaxis]), scaled.T @ (values * weights)
    best, gain = np.zeros(columns.shape[1]), 0.0
    numbers = range(columns.shape[1])
    for chosen in chain.from_iterable(combinations(numbers, size) for size in range(1, len(numbers) + 1)):
        own = gram[np.ix_(chosen, chosen)]
        if np.linalg.cond(own) > _WORST_CONDITION:
            continue
        solution = np.linalg.solve(own, moment[list(chosen)])
        explained = float(solution @ moment[list(chosen)])
        if (solution >= 0).all() and explained > gain * (1 + 1e-12):
            best, gain = np.zeros(len(numbers)), explained
            best[list(chosen)] = solution
    return np.asarray(best / scale, dtype=np.float64)


def _half_width(columns: Floats, coefficients: Floats, kept: Flags, off: Floats) -> float:
    """Of the sum over all values, at 95 %, relative to it."""
    active = columns[:, coefficients > 0]
    total = float((columns @ coefficients).sum())
    freedom = int(kept.sum()) - active.shape[1]
    if total <= 0 or freedom < 1:
        return 0.0
    scale = np.abs(active).max(axis=0)
    scaled = active / scale
    variance = float(off @ off) / freedom * np.linalg.pinv(scaled[kept].T @ scaled[kept])
    whole = scaled.sum(axis=0)
    student = _STUDENT[freedom - 1] if freedom <= len(_STUDENT) else 2.0
    return student * float(np.sqrt(max(float(whole @ variance @ whole), 0.0))) / total
