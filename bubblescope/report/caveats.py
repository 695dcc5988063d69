"""What the recording lacks and what was guessed, so that nobody takes a guess for a fact."""

from __future__ import annotations

from bubblescope.analyzers.results import Analysis
from bubblescope.report.escape import visible
from bubblescope.report.quantities import duration
from bubblescope.report.section import Line, Section
from bubblescope.trace.model import Lost

_MOST = 20


def caveats(analysis: Analysis) -> Section | None:
    """The guesses first, then the losses; None if there is neither."""
    lost = [Line(loss(each)) for each in analysis.lost[:_MOST]]
    if len(analysis.lost) > _MOST:
        lost.append(Line(f"{len(analysis.lost) - _MOST} more are in the report's JSON form"))
    guessed = [line for line in (_layers(analysis), _clock(analysis)) if line is not None]
    lines = (*guessed, *lost)
    return Section("Guessed or lost", lines) if lines else None


def loss(lost: Lost) -> str:
    """ "events: cut off at byte 4711 (12)", marked where the input was damaged."""
    number = "" if lost.count is None else f" ({lost.count})"
    mark = "damaged: " if lost.damage else ""
    return f"{mark}{visible(lost.what)}: {visible(lost.why, 400)}{number}"


def _layers(analysis: Analysis) -> Line | None:
    if analysis.layers_from != "attention":
        return None
    return Line("layers per stage: inferred from how often the attention kernel runs")


def _clock(analysis: Analysis) -> Line | None:
    clock = analysis.trace.run.clock
    how = visible(clock.how)
    if not clock.aligned:
        return Line(f"clocks: the ranks are not aligned, so times between them mean nothing: {how}")
    if clock.uncertainty_ns:
        return Line(f"clocks: the ranks agree within {duration(clock.uncertainty_ns)}: {how}")
    return None
