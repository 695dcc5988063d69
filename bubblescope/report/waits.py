"""Who waited for whom, how long and why, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bubblescope.analyzers.results import Analysis, Stage
from bubblescope.report.escape import visible
from bubblescope.report.quantities import duration, share

#: Why a stage waits for another one; "{}" is the culprit.
_REASONS = {
    "compute": "waited for {} to compute",
    "transfer": "waited for data on its way over the link of {}",
    "host": "waited for {}, whose host was late in launching its work",
    "state": "waited for {}, whose host saved or restored KV caches",
    "token": "waited for the sampled tokens of {}",
    "follow_on": "waited for {}, which was itself waiting; for whom cannot be resolved",
    "unknown": "waited for {}, and the recording does not show what held it up",
}
_OWN_REASONS = {
    "host": "had its input, and its own host had not launched the work",
    "state": "waited while its own host saved or restored KV caches",
    "tp_skew": "waited for the slowest rank of its own tensor-parallel group",
}


@dataclass(frozen=True)
class Wait:
    """One cell of the blame matrix; `share` is of the time in which a request was open."""

    stage: int
    culprit: int | None
    cause: str
    ns: int
    share: float


def waits(analysis: Analysis) -> list[Wait]:
    """The blame, longest first."""
    active = {stage.stage: active_ns(stage.states_ns) for stage in analysis.stages}
    rows = [
        Wait(
            stage=int(row["waiting_stage"]),
            culprit=int(row["culprit_stage"]) if row["culprit_stage"] >= 0 else None,
            cause=str(row["cause"]),
            ns=int(row["ns"]),
            share=_ratio(row["ns"], active.get(row["waiting_stage"], 0)),
        )
        for row in analysis.blame.to_dict("records")
    ]
    return sorted((row for row in rows if row.ns > 0), key=lambda row: -row.ns)


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def sentence(wait: Wait) -> str:
    """ "Stage 1 waited for stage 0 to compute: 712 ms (58 %)"."""
    said = reason(wait.stage, wait.culprit, wait.cause)
    return f"Stage {wait.stage} {said}: {duration(wait.ns)} ({share(wait.share)})"


def reason(stage: int, culprit: int | None, cause: str) -> str:
    """ "waited for stage 0 to compute": what to say of a stage that waited."""
    if culprit is None:
        return "waited; for whom cannot be told"
    if culprit == stage:
        return _OWN_REASONS.get(cause, f"waited within its own stage ({visible(cause)})")
    return _REASONS.get(cause, "waited for {}").format(f"stage {culprit}")


def token_phases(analysis: Analysis, stage: int, culprit: int | None) -> dict[str, int]:
    """How long `stage` waited for sampled tokens, in ns, by the phase of the step that samples them."""
    found, spans = analysis.culprits, analysis.spans
    waited = found[
        (found["waiting_stage"] == stage) & (found["culprit_stage"] == culprit) & (found["cause"] == "token")
    ]
    steps = spans[(spans["stage"] == culprit) & (spans["kind"] == "forward")].sort_values("begin_ns")
    # The step that had begun last when the waiting ended.
    step = np.searchsorted(steps["begin_ns"], waited["end_ns"], side="left") - 1
    phases: dict[str, int] = {}
    for ns, number in zip((waited["end_ns"] - waited["begin_ns"]).tolist(), step.tolist(), strict=True):
        if number >= 0:
            phase = str(steps["phase"].iloc[number])
            phases[phase] = phases.get(phase, 0) + ns
    return phases


def active_ns(states_ns: Mapping[str, int]) -> int:
    """How long a request was open, as this device saw it: the window without idle."""
    return sum(ns for state, ns in states_ns.items() if state != "idle")


def devices_of(analysis: Analysis, stage: Stage) -> str:
    """ "NVIDIA H200", "2 x NVIDIA H200" or, of mixed ones, "A + B"."""
    names = [visible(analysis.trace.run.devices[each].name or "unknown device", 40) for each in stage.devices]
    counts = {name: names.count(name) for name in names}
    return " + ".join(name if count == 1 else f"{count} x {name}" for name, count in counts.items())


def named(analysis: Analysis, number: int) -> str:
    """ "stage 1 (NVIDIA H200, 9 layers)", as far as known."""
    stage = next((each for each in analysis.stages if each.stage == number), None)
    if stage is None:
        return f"stage {number}"
    layers = [] if stage.layers is None else [count(stage.layers, "layer")]
    return f"stage {number} ({', '.join([devices_of(analysis, stage), *layers])})"


def sentence_case(text: str) -> str:
    """The text with a capital at its begin."""
    return text[:1].upper() + text[1:]


def count(number: int, noun: str) -> str:
    """ "1 layer", "9 layers"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
