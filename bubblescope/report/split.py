"""What the advice on the split says about the recorded one, for the verdict."""

from __future__ import annotations

from bubblescope.analyzers.advice.recommend import WORST_ERROR
from bubblescope.analyzers.results import Analysis, Stage
from bubblescope.report.quantities import percent
from bubblescope.report.waits import active_ns, named, sentence_case


def is_balanced(analysis: Analysis) -> bool:
    """Whether the split was simulated, and no other could be better by more than the error."""
    found = analysis.recommendation
    told = found.partition is None and found.error is not None and found.error <= WORST_ERROR
    return told and not found.uncertain


def cure(analysis: Analysis) -> str | None:
    """The stage that the advised split relieves, as a sentence; None where no split is advised."""
    stage = _relieved(analysis)
    if stage is None:
        return None
    compute = percent(stage.states_ns.get("compute", 0), active_ns(stage.states_ns))
    others = "the other waits" if len(analysis.stages) == 2 else "the others wait"
    who = sentence_case(named(analysis, stage.stage))
    return f"{who} computes longest, {compute} of the time, and {others} for it: give it fewer layers."


def _relieved(analysis: Analysis) -> Stage | None:
    """Of the stages that shall hold fewer layers the one that computes longest."""
    advised = analysis.recommendation.partition or ()
    if len(advised) != len(analysis.stages):
        return None
    fewer = [
        stage
        for stage, layers in zip(analysis.stages, advised, strict=True)
        if stage.layers is not None and layers < stage.layers
    ]
    return max(fewer, key=lambda stage: stage.states_ns.get("compute", 0), default=None)
