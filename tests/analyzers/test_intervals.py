"""Interval sets against a set of integers, which cannot be wrong."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bubblescope.analyzers import intervals as iv

rows = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), max_size=12)


def moments(a: iv.Intervals) -> set[int]:
    return {t for begin, end in a.tolist() for t in range(begin, end)}


def as_set(pairs: list[tuple[int, int]]) -> iv.Intervals:
    return iv.union([b for b, _ in pairs], [b + d for b, d in pairs])


def is_set(a: iv.Intervals) -> bool:
    flat = a.ravel()
    return bool((np.diff(flat) > 0).all()) if len(flat) else True


@given(rows)
def test_union_covers_what_any_interval_covers(pairs: list[tuple[int, int]]) -> None:
    result = as_set(pairs)
    assert moments(result) == {t for b, d in pairs for t in range(b, b + d)}
    assert is_set(result)


@given(rows, rows)
def test_set_algebra_agrees_with_sets_of_moments(p: list[tuple[int, int]], q: list[tuple[int, int]]) -> None:
    a, b = as_set(p), as_set(q)
    assert moments(iv.intersect(a, b)) == moments(a) & moments(b)
    assert moments(iv.subtract(a, b)) == moments(a) - moments(b)
    assert moments(iv.merge(a, b)) == moments(a) | moments(b)
    assert iv.total(a) == len(moments(a))


@given(rows, st.integers(0, 50), st.integers(0, 50))
def test_gaps_are_the_rest(pairs: list[tuple[int, int]], begin: int, end: int) -> None:
    a = as_set(pairs)
    assert moments(iv.gaps(a, begin, end)) == set(range(begin, end)) - moments(a)


@given(rows, st.integers(-5, 60), st.integers(-5, 60))
def test_covered_between_counts_moments(pairs: list[tuple[int, int]], begin: int, end: int) -> None:
    a = as_set(pairs)
    assert iv.covered_between(a, [begin], [end])[0] == len(moments(a) & set(range(begin, end)))


@given(rows)
def test_first_come_gives_each_moment_to_the_earliest_begin(pairs: list[tuple[int, int]]) -> None:
    begin = np.array([b for b, _ in pairs], dtype=np.int64)
    end = np.array([b + d for b, d in pairs], dtype=np.int64)
    owners = {}
    for t in range(60):
        pending = [i for i in range(len(pairs)) if begin[i] <= t < end[i]]
        if pending:
            owners[t] = min(pending, key=lambda i: (begin[i], i))
    kept, parts = iv.first_come(begin, end)
    found = {t: int(row) for row, (b, e) in zip(kept, parts.tolist(), strict=True) for t in range(b, e)}
    assert found == owners
