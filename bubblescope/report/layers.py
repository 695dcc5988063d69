"""The layers one by one, where they are recorded: what one takes on each stage, and which takes longest."""

from __future__ import annotations

import pandas as pd

from bubblescope.analyzers.results import Analysis
from bubblescope.report.quantities import Unit
from bubblescope.report.section import Line, Section, Table
from bubblescope.report.waits import count

_OF_ATTENTION = "Only the attention of each layer is recorded."


def layer_by_layer(analysis: Analysis) -> Section | None:
    """A row per stage; times are of a typical microbatch of prefill, the median."""
    times = analysis.layer_times
    if not len(times):
        return None
    unit = Unit.fitting(int(times["median_ns"].max()))
    figures = (f"a layer takes {unit.name}", f"it takes {unit.name}", f"all take {unit.name}")
    stages = times["stage"].unique().tolist()
    rows = tuple(_row(stage, times[times["stage"] == stage], unit) for stage in stages)
    lines = (Line(_OF_ATTENTION),) if bool((times["part"] == "attention").any()) else ()
    header = ("", "layers", figures[0], "the slowest is", figures[1], figures[2])
    return Section("Layer by layer", lines, Table(header, rows, frozenset({"the slowest is", *figures})))


def _row(stage: int, rows: pd.DataFrame, unit: Unit) -> tuple[str, ...]:
    slowest, longest = max(zip(rows["layer"], rows["median_ns"], strict=True), key=lambda row: row[1])
    return (
        f"stage {stage}",
        count(len(rows), "layer"),
        unit.number(int(rows["median_ns"].median())),
        str(slowest),
        unit.number(longest),
        unit.number(int(rows["median_ns"].sum())),
    )
