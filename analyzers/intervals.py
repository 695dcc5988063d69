"""Sets of time as sorted, disjoint, half-open intervals.

An interval set is an int64 array of shape (n, 2): begin and end in nanoseconds, begin < end,
each begin after the end before it. Every function is linear or n log n and never loops in Python.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Intervals = NDArray[np.int64]
Index = NDArray[np.intp]

EMPTY: Intervals = np.empty((0, 2), dtype=np.int64)


def union(begin: ArrayLike, end: ArrayLike) -> Intervals:
    """Time covered by at least one of the given intervals, in any order and overlapping."""
    begins = np.asarray(begin, dtype=np.int64)
    ends = np.asarray(end, dtype=np.int64)
    begins, ends = begins[ends > begins], ends[ends > begins]
    if not len(begins):
        return EMPTY
    order = np.argsort(begins, kind="stable")
    begins, ends = begins[order], ends[order]
    reach = np.maximum.accumulate(ends)
    first = np.concatenate(([True], begins[1:] > reach[:-1]))
    last = np.concatenate((first[1:], [True]))
    return np.column_stack((begins[first], reach[last]))


def merge(*sets: Intervals) -> Intervals:
    """Time covered by any of the sets."""
    stacked = np.concatenate(sets) if sets else EMPTY
    return union(stacked[:, 0], stacked[:, 1])


def span(begin: int, end: int) -> Intervals:
    """The set that is one interval, or empty."""
    return np.array([[begin, end]], dtype=np.int64) if end > begin else EMPTY


def overlaps(a: Intervals, b: Intervals) -> tuple[Index, Index, Intervals]:
    """Every overlap of a row of `a` with a row of `b`: both row numbers and the common time.

    `b` must be a set; the rows of `a` may be in any order and overlap each other.
    """
    low = np.searchsorted(b[:, 1], a[:, 0], side="right")
    high = np.searchsorted(b[:, 0], a[:, 1], side="left")
    count = np.maximum(high - low, 0)
    left = np.repeat(np.arange(len(a)), count)
    offset = np.arange(len(left)) - np.repeat(np.cumsum(count) - count, count)
    right = np.repeat(low, count) + offset
    common = np.column_stack(
        (np.maximum(a[left, 0], b[right, 0]), np.minimum(a[left, 1], b[right, 1]))
    ).astype(np.int64)
    return left, right, common


def intersect(a: Intervals, b: Intervals) -> Intervals:
    """Time in both sets."""
    return overlaps(a, b)[2]


def subtract(a: Intervals, b: Intervals) -> Intervals:
    """Time in `a` and not in `b`."""
    if not len(a) or not len(b):
        return a
    return intersect(a, gaps(b, int(a[0, 0]), int(a[-1, 1])))


def gaps(a: Intervals, begin: int, end: int) -> Intervals:
    """Time from `begin` to `end` that is not in the set."""
    inside = intersect(a, span(begin, end))
    edges = np.concatenate(([begin], inside.ravel(), [end]))
    pairs = edges.reshape(-1, 2).astype(np.int64)
    return pairs[pairs[:, 1] > pairs[:, 0]]


def total(a: Intervals) -> int:
    """Length of the set in nanoseconds."""
    return int((a[:, 1] - a[:, 0]).sum())


def covered_between(a: Intervals, begin: ArrayLike, end: ArrayLike) -> NDArray[np.int64]:
    """How much of the set lies in each [begin, end), in nanoseconds; 0 where end <= begin."""
    begins = np.asarray(begin, dtype=np.int64)
    ends = np.maximum(np.asarray(end, dtype=np.int64), begins)
    return _covered_before(a, ends) - _covered_before(a, begins)


def _covered_before(a: Intervals, at: NDArray[Any]) -> NDArray[np.int64]:
    if not len(a):
        return np.zeros(len(at), dtype=np.int64)
    sums = np.concatenate(([0], np.cumsum(a[:, 1] - a[:, 0])))
    row = np.searchsorted(a[:, 0], at, side="right")
    inside = np.clip(
        at - a[np.maximum(row - 1, 0), 0], 0, a[np.maximum(row - 1, 0), 1] - a[np.maximum(row - 1, 0), 0]
    )
    return np.asarray(sums[np.maximum(row - 1, 0)] + np.where(row > 0, inside, 0), dtype=np.int64)


def first_come(begin: NDArray[np.int64], end: NDArray[np.int64]) -> tuple[Index, Intervals]:
    """Share overlapping intervals out so that each moment goes to the one that began first.

    Returns the row numbers that keep some time, in time order, and what each keeps (a set).
    """
    order = np.lexsort((np.arange(len(begin)), begin)).astype(np.intp)
    begins, ends = begin[order], end[order]
    reach = np.maximum.accumulate(ends) if len(ends) else ends
    starts = np.maximum(begins, np.concatenate((begins[:1], reach[:-1])))
    keep = ends > starts
    return order[keep], np.column_stack((starts[keep], ends[keep])).astype(np.int64)
