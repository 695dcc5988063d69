"""A number that means one batch here and another there is told of."""

from __future__ import annotations

import pandas as pd

from bubblescope.record.agreement import disagreements

FORWARD, RECEIVE = "forward", "recv"


def spans(*rows: tuple[str, int, int]) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=["kind", "microbatch", "tokens"])


def test_batches_of_the_same_tokens_everywhere_are_taken_as_they_are() -> None:
    agreed = spans((FORWARD, 1, 256), (FORWARD, 1, 256), (FORWARD, 2, 208), (FORWARD, 2, 208))
    assert list(disagreements(agreed)) == []


def test_what_is_not_known_contradicts_nothing() -> None:
    assert list(disagreements(spans((FORWARD, 1, 256), (FORWARD, 1, -1), (RECEIVE, 1, 7)))) == []
    assert list(disagreements(spans((FORWARD, -1, 256), (FORWARD, -1, 208)))) == []


def test_batches_that_differ_are_counted() -> None:
    shifted = spans((FORWARD, 1, 256), (FORWARD, 1, 208), (FORWARD, 2, 208), (FORWARD, 2, 1), (FORWARD, 3, 1))
    (lost,) = disagreements(shifted)
    assert lost.count == 2
