"""Layer by layer: a row per stage, with its slowest layer by name."""

from __future__ import annotations

import json

import pytest

from bubblescope.analyzers.results import LAYER_TIMES
from bubblescope.report.document import to_json
from bubblescope.report.layers import layer_by_layer
from bubblescope.trace.frames import table
from tests.report.analyses import MS, analysis

STAGES = [[("compute", 10)], [("compute", 10)]]


def timed(part: str = "layer") -> dict[str, object]:
    """Three layers of 2, 3 and 7 ms on stage 0, one of 4 ms on stage 1, in five microbatches each."""
    columns = {
        "stage": [0, 0, 0, 1], "layer": [0, 1, 2, 3], "part": [part] * 4, "microbatches": [5] * 4,
        "ns": [10 * MS, 15 * MS, 35 * MS, 20 * MS], "median_ns": [2 * MS, 3 * MS, 7 * MS, 4 * MS],
    }  # fmt: skip
    return {"layer_times": table(LAYER_TIMES, columns)}


def test_each_stage_has_a_typical_layer_its_slowest_and_all_together() -> None:
    section = layer_by_layer(analysis(STAGES, **timed()))
    assert section is not None and section.table is not None
    assert section.table.header == (
        "", "layers", "a layer takes ms", "the slowest is", "it takes ms", "all take ms",
    )  # fmt: skip
    assert section.table.rows == (
        ("stage 0", "3 layers", "3.0", "2", "7.0", "12.0"),
        ("stage 1", "1 layer", "4.0", "3", "4.0", "4.0"),
    )


@pytest.mark.parametrize(
    ("part", "said"), [("layer", []), ("attention", ["Only the attention of each layer"])]
)
def test_it_says_where_only_attention_is_recorded(part: str, said: list[str]) -> None:
    section = layer_by_layer(analysis(STAGES, **timed(part)))
    assert section is not None
    assert [line.text[:32] for line in section.lines] == said


def test_nothing_is_said_where_layers_are_not_recorded() -> None:
    assert layer_by_layer(analysis(STAGES)) is None


def test_programs_get_every_layer() -> None:
    found = json.loads(to_json(analysis(STAGES, **timed())))["layer_times"]
    assert [row["layer"] for row in found] == [0, 1, 2, 3]
    assert found[2] == {
        "stage": 0, "layer": 2, "part": "layer", "microbatches": 5, "ns": 35 * MS, "median_ns": 7 * MS,
    }  # fmt: skip
