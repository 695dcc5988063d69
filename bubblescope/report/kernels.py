"""What a layer's kernels do, where they are recorded: attention, products of matrices, communication."""

from __future__ import annotations

from bubblescope.analyzers.results import Analysis
from bubblescope.report.quantities import Unit
from bubblescope.report.section import Section, Table

#: The parts in the order of the table, with their headings. Copies belong to no layer.
_PARTS = (
    ("attention", "attention"),
    ("matrix", "matrices"),
    ("communication", "collectives"),
    ("other", "other"),
)


def kernels_of_a_layer(analysis: Analysis) -> Section | None:
    """A row per stage: what one layer of a microbatch of prefill takes, by what its kernels do."""
    times = analysis.kernel_times
    times = times[times["layer_ns"] > 0]
    if not len(times):
        return None
    unit = Unit.fitting(int(times["layer_ns"].max()))
    shown = [(part, heading) for part, heading in _PARTS if bool((times["part"] == part).any())]
    by_stage = times.set_index(["stage", "part"])["layer_ns"]
    rows = []
    for stage in times["stage"].unique().tolist():
        figures = [int(by_stage.get((stage, part), 0)) for part, _ in shown]
        rows.append((f"stage {stage}", *(unit.number(ns) for ns in (*figures, sum(figures)))))
    headings = (*(heading for _, heading in shown), "all")
    title = f"Kernels of a layer, {unit.name} per microbatch of prefill"
    return Section(title, (), Table(("", *headings), tuple(rows), frozenset(headings)))
