"""The report in one sentence: what costs most, or why nothing can be said."""

from __future__ import annotations

from dataclasses import dataclass

from bubblescope.analyzers.results import Analysis, Stage
from bubblescope.report.findings import cure_by_flag
from bubblescope.report.losses import WORTH_NAMING, losses, untold
from bubblescope.report.quantities import percent, share
from bubblescope.report.split import cure, is_balanced
from bubblescope.report.unlike import unlike
from bubblescope.report.waits import active_ns, count, named


@dataclass(frozen=True)
class Verdict:
    """One sentence. `tone` is "good", "bad", or "none" where there is nothing to judge."""

    tone: str
    text: str


def verdict(analysis: Analysis) -> Verdict:
    """The sentence that a person should remember if they read nothing else."""
    unjudged, by_flag = _unjudged(analysis), cure_by_flag(analysis)
    if unjudged is not None:
        return Verdict("none", unjudged) if by_flag is None else Verdict("bad", f"{by_flag} {unjudged}")
    said, odd = _said(analysis), unlike(analysis)
    if by_flag is not None:
        said = f"{by_flag} {said}".rstrip()
    if odd is not None:
        said = f"{said} {odd}".lstrip()
    if not said:
        most = share(WORTH_NAMING)
        return Verdict("good", f"Balanced: no stage loses more than {most} of its time to any one cause.")
    if _decode_only(analysis):
        return Verdict("none", f"Only decode steps here, no prefill to judge. {said}")
    return Verdict("bad", said)


def _said(analysis: Analysis) -> str:
    """The losses, with what the advice on the split has to do with them."""
    found = losses(analysis)
    texts = [loss.text for loss in found]
    blamed = any(loss.kind == "split" for loss in found)
    relief = cure(analysis)
    if relief is not None:
        # What the advised split gains is known, what fuller chunks gain is not: the ends come last. One
        # sentence stands in the place of what the split cures, or after what it does not.
        ends = [loss.text for loss in found if loss.kind == "ends"]
        others = [relief if loss.kind == "busy" else loss.text for loss in found if loss.kind != "ends"]
        return " ".join(dict.fromkeys([*others, *([] if blamed else [relief]), *ends]))
    if found and not blamed and is_balanced(analysis):
        return " ".join(["The split is balanced within error.", *texts])
    return " ".join(texts)


def _unjudged(analysis: Analysis) -> str | None:
    """Why there is nothing to judge, if so."""
    if not any(each.states_ns for each in analysis.devices):
        nothing = "No device activity in this recording, so nothing can be said about bubbles"
        return f"{nothing}: {_without_devices(analysis)}."
    if not analysis.stages:
        return _no_pipeline(analysis)
    if len(analysis.stages) == 1:
        return _one_stage(analysis, analysis.stages[0])
    if not analysis.trace.run.clock.aligned:
        return (
            "The clocks of the stages could not be aligned, so who waits for whom cannot be told: "
            "record all ranks with the same tool in one run."
        )
    if not any(active_ns(stage.states_ns) for stage in analysis.stages):
        return "Every stage is idle in this window: no request was open."
    if untold(analysis):
        return (
            "No communication in this recording, so time that the stages waited for each other cannot be "
            f"told from time that their hosts needed: they compute {_computing(analysis)} of the time."
        )
    return None


def _without_devices(analysis: Analysis) -> str:
    """Why no device worked, or what would show it."""
    on = analysis.trace.run.facts.get("llama_layer_devices")
    if isinstance(on, list) and on and all(each == "CPU" for each in on):
        return "llama.cpp computed on the CPU alone, which is no stage; -ngl gives layers to devices"
    return "record with the profiler's GPU (CUDA) activities switched on"


def _no_pipeline(analysis: Analysis) -> str:
    known = sum(1 for each in analysis.devices if each.states_ns)
    here = f"{count(known, 'device')}, computing {_computing(analysis)} of the time"
    missing = _missing(analysis)
    if missing:
        return f"Too few ranks in this recording to see a pipeline{missing}: {here}."
    return f"No pipeline in this recording: {here}."


def _computing(analysis: Analysis) -> str:
    """The share of the time that the devices compute, from the least to the most."""
    known = [each.states_ns for each in analysis.devices if each.states_ns]
    compute = [states["compute"] / max(active_ns(states), 1) for states in known]
    low, high = share(min(compute)), share(max(compute))
    return low if low == high else f"{low} to {high}"


def _one_stage(analysis: Analysis, stage: Stage) -> str:
    compute = percent(stage.states_ns.get("compute", 0), active_ns(stage.states_ns))
    return (
        f"Only {named(analysis, stage.stage)} is in this recording{_missing(analysis)}: "
        f"it computes {compute} of the time, and whom it waits for cannot be told; record every rank."
    )


def _missing(analysis: Analysis) -> str:
    world, here = analysis.trace.run.world_size, len(analysis.trace.run.devices)
    return f" ({here} of {world} ranks)" if world is not None and world > here else ""


def _decode_only(analysis: Analysis) -> bool:
    spans = analysis.spans
    return set(spans.loc[spans["kind"] == "forward", "phase"]) == {"decode"}
