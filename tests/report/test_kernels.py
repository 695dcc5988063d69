"""Kernels of a layer: a row per stage, a column per kind that there is."""

from __future__ import annotations

import json

from bubblescope.analyzers.results import KERNEL_TIMES
from bubblescope.report.document import to_json
from bubblescope.report.kernels import kernels_of_a_layer
from bubblescope.trace.frames import table
from tests.report.analyses import MS, analysis

STAGES = [[("compute", 10)], [("compute", 10)]]


def timed() -> dict[str, object]:
    """Per layer 2 ms attention and 3 ms products on stage 0, 4 ms products on stage 1; copies of none."""
    columns = {
        "stage": [0, 0, 0, 1], "part": ["attention", "matrix", "copy", "matrix"], "kernels": [8, 16, 5, 16],
        "ns": [80 * MS, 120 * MS, 7, 160 * MS], "layer_ns": [2 * MS, 3 * MS, 0, 4 * MS],
    }  # fmt: skip
    return {"kernel_times": table(KERNEL_TIMES, columns)}


def test_each_stage_has_what_its_kernels_take_and_all_together() -> None:
    section = kernels_of_a_layer(analysis(STAGES, **timed()))
    assert section is not None and section.table is not None
    assert section.title == "Kernels of a layer, ms per microbatch of prefill"
    assert section.table.header == ("", "attention", "matrices", "all")
    assert section.table.rows == (("stage 0", "2.0", "3.0", "5.0"), ("stage 1", "0", "4.0", "4.0"))


def test_without_kernels_or_layers_there_is_nothing_to_say() -> None:
    assert kernels_of_a_layer(analysis(STAGES)) is None


def test_scripts_get_everything() -> None:
    found = json.loads(to_json(analysis(STAGES, **timed())))["kernel_times"]
    assert found[0] == {"stage": 0, "part": "attention", "kernels": 8, "ns": 80 * MS, "layer_ns": 2 * MS}
    assert len(found) == 4


def test_scripts_are_told_null_where_the_layers_are_not_known() -> None:
    columns = {"stage": [0], "part": ["matrix"], "kernels": [8], "ns": [80 * MS], "layer_ns": [-1]}
    unknown = analysis(STAGES, kernel_times=table(KERNEL_TIMES, columns))
    (found,) = json.loads(to_json(unknown))["kernel_times"]
    assert found == {"stage": 0, "part": "matrix", "kernels": 8, "ns": 80 * MS, "layer_ns": None}
