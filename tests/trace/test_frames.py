"""The seam: what may stand in a table, and what is refused there."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from bubblescope.trace import frames
from bubblescope.trace.frames import COUNTERS, Schema, SchemaError

PIECES = Schema(
    "pieces",
    {"device": "int32", "kind": ("work", "rest"), "name": "text", "begin_ns": "time", "end_ns": "time"},
    intervals=True,
)
GOOD: dict[str, list[Any]] = {
    "device": [0, 1], "kind": ["work", "rest"], "name": ["b", "a"], "begin_ns": [5, 2**60 + 1],
    "end_ns": [5, 2**60 + 3],
}  # fmt: skip


def test_columns_come_in_the_schema_s_order_and_types() -> None:
    table = frames.table(PIECES, dict(reversed(GOOD.items())))
    assert list(table.columns) == list(PIECES.columns)
    assert [str(dtype) for dtype in table.dtypes] == ["int32", "category", "category", "int64", "int64"]
    assert table["begin_ns"].tolist() == [5, 2**60 + 1]


def test_equal_tables_compare_equal_whatever_way_they_were_built() -> None:
    one = frames.table(PIECES, GOOD)
    other = frames.table(PIECES, {**GOOD, "name": pd.Categorical(["b", "a"], categories=["z", "b", "a"])})
    pd.testing.assert_frame_equal(one, other)
    pd.testing.assert_frame_equal(frames.checked(PIECES, one.iloc[::-1].iloc[::-1]), one)


def test_an_empty_table_has_the_types_of_a_full_one() -> None:
    assert (
        frames.empty(PIECES).dtypes.astype(str).tolist()
        == frames.table(PIECES, GOOD).dtypes.astype(str).tolist()
    )


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("kind", ["work", "sleep"]),
        ("kind", ["work", None]),
        ("device", [0, 2**40]),
        ("begin_ns", [0.5, 1]),
        ("begin_ns", [float("nan"), 1]),
        ("begin_ns", ["soon", 1]),
        ("end_ns", [4, 2**60 + 3]),
    ],
)
def test_what_does_not_fit_is_refused(column: str, values: list[Any]) -> None:
    with pytest.raises(SchemaError):
        frames.table(PIECES, {**GOOD, column: values})


def test_missing_and_unknown_columns_are_named() -> None:
    with pytest.raises(SchemaError, match="end_ns, stop_ns"):
        frames.checked(PIECES, pd.DataFrame(GOOD).rename(columns={"end_ns": "stop_ns"}))


def test_a_counter_may_be_missing() -> None:
    table = frames.table(
        COUNTERS, {"device": [0], "name": ["power_w"], "time_ns": [1], "value": [float("nan")]}
    )
    assert table["value"].isna().tolist() == [True]


def test_columns_with_a_default_need_not_be_given() -> None:
    lanes = Schema(
        "lanes", {"lane": "int32", "peer": "int64", "note": "text"}, defaults={"peer": -1, "note": ""}
    )
    table = frames.table(lanes, {"lane": [3, 4], "peer": [7, 8]})
    assert table.to_dict("list") == {"lane": [3, 4], "peer": [7, 8], "note": ["", ""]}
    assert frames.checked(lanes, table[["lane"]])["peer"].tolist() == [-1, -1]
    assert list(frames.empty(lanes).columns) == ["lane", "peer", "note"]
    with pytest.raises(SchemaError, match="lane"):
        frames.checked(lanes, table[["peer"]])
