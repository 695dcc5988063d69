"""The advice on the split: what to set, what it saves, and how far that is to be believed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bubblescope.analyzers.advice.cost import CostModel, Floats, fit_cost
from bubblescope.analyzers.advice.engines import runnable, starts, words
from bubblescope.analyzers.advice.occupancy import CannotTellError, occupancy
from bubblescope.analyzers.advice.partition import Split, allowed_ranges, best_split
from bubblescope.analyzers.advice.prompts import Prefill, Prompt, prefill
from bubblescope.analyzers.advice.schedule import Schedule, schedule
from bubblescope.analyzers.advice.simulator import Simulation, simulate
from bubblescope.analyzers.layer_times import unlike_layers
from bubblescope.analyzers.results import Analysis, Recommendation
from bubblescope.analyzers.shared_cards import shared_cards

#: A simulator that is further off on what was recorded predicts nothing.
WORST_ERROR = 0.2
#: Larger models and pipelines are taken for damage.
MOST_LAYERS, MOST_STAGES = 512, 64
#: A stage that took less per layer than its twin, by a smaller share, is not spoken of.
WORTH_SAYING = 0.01
#: The search for the best split looks at so many prompts at most, spread over the recording.
MOST_PROMPTS = 32
#: What would save more than this, and is not certain to, is no balance.
WORTH_RECORDING = 0.05
_NONE_FASTER = "balanced within error: no split is simulated to be faster"


@dataclass(frozen=True)
class _Case:
    """What was recorded, ready to be simulated: P prompts, those that nothing disturbed if they suffice.

    makespan_ns, served_ns: (P,), as recorded; see Simulation. found: how many prompts there were.
    """

    layers: tuple[int, ...]
    prompts: tuple[Prompt, ...]
    makespan_ns: Floats
    served_ns: Floats
    model: CostModel
    plan: Schedule
    found: int

    def simulated(self, layers: tuple[int, ...], factor: Floats | float = 1.0) -> Simulation:
        return simulate(self.plan, self.model.times_ns(layers, factor))

    def ttft_ns(self) -> float | None:
        """The mean, where the request of every prompt was recorded."""
        known = [prompt.ttft_ns for prompt in self.prompts if prompt.ttft_ns is not None]
        return float(np.mean(known)) if len(known) == len(self.prompts) else None


@dataclass(frozen=True)
class Prediction:
    """What a prompt takes under a split, on average: on the devices, and until its first token.

    ttft_ns: None where the request of a prompt is not recorded.
    """

    makespan_ns: int
    ttft_ns: int | None


def predict(analysis: Analysis, layers: Sequence[int]) -> Prediction:
    """What the recording foretells of a split with as many stages and layers.

    Raises CannotTellError where it tells too little.
    """
    case = _case(analysis)
    return _prediction(case, case.simulated(case.layers), case.simulated(tuple(layers)))


def recommend(analysis: Analysis) -> Recommendation:
    """The advice; `partition` is None where there is none to give, and `reason` says why."""
    try:
        case = _case(analysis)
        recorded, as_recorded = case.makespan_ns, case.simulated(case.layers)
        error = float(np.mean(np.abs(as_recorded.makespan_ns - recorded) / np.maximum(recorded, 1)))
        ttft = case.ttft_ns()
        measured = Recommendation(
            partition=None,
            reason=f"the simulator misses what was recorded by {_percent(error)}, so it predicts nothing",
            makespan_ns=round(float(recorded.mean())),
            ttft_ns=_mean_ttft(analysis) if ttft is None else round(ttft),
            error=error,
            remarks=_left_out(case),
        )
        if error > WORST_ERROR:
            return measured
        return _advice(analysis, case, _best_split(analysis, case), as_recorded, measured)
    except CannotTellError as untold:
        return Recommendation(None, str(untold))


def _case(analysis: Analysis) -> _Case:
    layers, devices = _layers(analysis), [stage.devices[0] for stage in analysis.stages]
    run = analysis.trace.run
    found = prefill(analysis, occupancy(analysis.spans, devices))
    model = fit_cost(found.work, layers, [run.devices[device].name for device in devices])
    plan = schedule(found, model.hiccup_ns, _in_flight(run.facts))
    # Accidents say nothing about a split. Where most prompts suffered some, they are part of the picture.
    calm = np.flatnonzero(~plan.disturbed())
    kept = calm if 2 * len(calm) >= len(found.prompts) else np.arange(len(found.prompts))
    served = _served_ns(found, plan)[kept]
    plan, columns = plan.only(kept)
    prompts = tuple(found.prompts[number] for number in kept)
    makespan = np.array([found.makespan_ns(prompt) for prompt in prompts], dtype=np.float64)
    if makespan.min() <= 0:
        raise CannotTellError(
            "a prompt ends on the last stage before it begins on the first: are the numbers "
            "of microbatches the same on all stages?"
        )
    return _Case(layers, prompts, makespan, served, model.only(columns), plan, len(found.prompts))


def _layers(analysis: Analysis) -> tuple[int, ...]:
    """Of each stage. Raises CannotTellError where advice makes no sense."""
    if len(analysis.stages) < 2:
        raise CannotTellError("the recording is no pipeline of several stages, so there is nothing to split")
    if not analysis.trace.run.clock.aligned:
        raise CannotTellError("the clocks of the stages could not be aligned: record all ranks in one run")
    shared = shared_cards(analysis.trace.run, analysis.stages)
    if shared:
        listed = " and ".join(map(str, shared[0]))
        raise CannotTellError(f"stages {listed} share one card, so what each does slows the other down")
    if analysis.trace.run.facts.get("llama_pipelining") is False:
        raise CannotTellError("pipelining is off, so the devices take turns: that has to be changed first")
    held = tuple(stage.layers for stage in analysis.stages if stage.layers is not None)
    if len(held) < len(analysis.stages):
        raise CannotTellError("the layers of each stage are not known: name them with --partition")
    if min(held) < 1 or sum(held) > MOST_LAYERS or len(held) > MOST_STAGES:
        most = f"{MOST_LAYERS} layers on {MOST_STAGES} stages"
        raise CannotTellError(f"a stage with no layers, or more than {most}, cannot be right")
    return held


def _in_flight(facts: Mapping[str, Any]) -> int | None:
    """The engine's limit on batches in the pipeline, if a collector wrote it down."""
    value = facts.get("batches_in_flight")
    return value if type(value) is int and 0 < value < 1 << 31 else None


def _served_ns(found: Prefill, plan: Schedule) -> Floats:
    """(P,): from arrival to the last end on the last stage, as recorded."""
    done = found.work.end_ns[-1, plan.last] - found.work.begin_ns[0, plan.opened()]
    return np.asarray(done - plan.arrival, dtype=np.float64)


def _mean_ttft(analysis: Analysis) -> int | None:
    known = [request.ttft_ns for request in analysis.requests if request.ttft_ns is not None]
    return round(float(np.mean(known))) if known else None


def _best_split(analysis: Analysis, case: _Case) -> Split:
    """Raises CannotTellError where the engine could run none."""
    run, layers = analysis.trace.run, case.layers
    allowed = runnable(run, layers, allowed_ranges(len(layers), sum(layers)))
    sample = np.unique(np.linspace(0, len(case.prompts) - 1, MOST_PROMPTS).round().astype(np.int64))
    plan, columns = case.plan.only(sample)
    split = best_split(case.model.only(columns), plan, allowed, layers)
    if split is None:
        raise CannotTellError("with its attention backend the engine starts with no split of these layers")
    return split


def _prediction(case: _Case, as_recorded: Simulation, then: Simulation) -> Prediction:
    """The recorded times are changed by as much as the simulated ones: what the simulator gets wrong
    alike for both splits cancels out."""
    scale, ttft = _scale(case, as_recorded), case.ttft_ns()
    saved = 1 - then.served_ns.mean() / as_recorded.served_ns.mean()
    return Prediction(
        makespan_ns=round(float(then.makespan_ns.mean() * scale)),
        ttft_ns=None if ttft is None else round(ttft - float(saved * case.served_ns.mean())),
    )


def _scale(case: _Case, as_recorded: Simulation) -> float:
    return float(case.makespan_ns.mean() / as_recorded.makespan_ns.mean())


def _advice(
    analysis: Analysis, case: _Case, split: Split, as_recorded: Simulation, measured: Recommendation
) -> Recommendation:
    """The split as advice, if what it saves is more than what is in doubt."""
    if split.layers == case.layers:
        return replace(measured, reason=_NONE_FASTER)
    then = case.simulated(split.layers)
    low, high = (case.simulated(split.layers, each) for each in (case.model.low, case.model.high))
    before = as_recorded.served_ns.mean()
    saved, shortest, longest = (float(1 - each.served_ns.mean() / before) for each in (then, low, high))
    # Advice that might as well cost something is none.
    doubt = max(measured.error or 0.0, (shortest - longest) / 2, saved - longest)
    listed = ",".join(map(str, split.layers))
    if saved <= doubt:
        doubtful = f"{listed} would save {_percent(saved)} ± {_percent(doubt)}"
        if saved > WORTH_RECORDING:
            reason = f"uncertain: {doubtful}; a recording of more prompts may tell"
            return replace(measured, reason=reason, uncertain=True)
        # The best split also lets more prompts follow each other; each by itself may then take longer.
        reason = f"balanced within error: {doubtful}" if saved > 0 else _NONE_FASTER
        return replace(measured, reason=reason)
    scale, predicted = _scale(case, as_recorded), _prediction(case, as_recorded, then)
    return replace(
        measured,
        partition=split.layers,
        reason=f"{listed} would save {_percent(saved)} of a prompt's prefill "
        f"(between {_percent(longest)} and {_percent(shortest)})",
        predicted_makespan_ns=predicted.makespan_ns,
        predicted_range_ns=(
            round(float(low.makespan_ns.mean() * scale)),
            round(float(high.makespan_ns.mean() * scale)),
        ),
        predicted_ttft_ns=predicted.ttft_ns,
        words=words(analysis.trace.run, split.layers, _device_names(analysis)),
        remarks=(*measured.remarks, *_remarks(analysis, case, split)),
    )


def _device_names(analysis: Analysis) -> list[str | None]:
    return [analysis.trace.run.devices[stage.devices[0]].name for stage in analysis.stages]


def _left_out(case: _Case) -> tuple[str, ...]:
    """What the figures do not count, or count although it was an accident."""
    left_out = case.found - len(case.prompts)
    if left_out == 1:
        return (f"1 of {case.found} prompts is left out: pauses that nothing explains fell into it",)
    if left_out:
        return (
            f"{left_out} of {case.found} prompts are left out: pauses that nothing explains fell into them",
        )
    longest = float((case.plan.pause_ns + case.plan.hiccup_ns).max())
    if longest:
        return (
            f"pauses of up to {longest / 1e6:.1f} ms that nothing explains are taken to stay as they are",
        )
    return ()


def _remarks(analysis: Analysis, case: _Case, split: Split) -> list[str]:
    """What the advice takes for granted."""
    remarks = []
    low = case.model.low
    cooler = [stage for stage, twin in enumerate(case.model.twin) if low[stage] < low[twin] - WORTH_SAYING]
    if cooler:
        more = _percent(1 / min(float(low[stage]) for stage in cooler) - 1)
        remarks.append(
            f"a waiting device clocks higher: the layers of stage {', '.join(map(str, cooler))} are counted "
            f"as on a busier device of the same type, up to {more} slower than recorded"
        )
    unlike = unlike_layers(analysis.layer_times)
    if unlike:
        remarks.append(
            f"layers are taken to be alike, and those of stage {', '.join(map(str, unlike))} are not: "
            "which of them move counts, too"
        )
    if not split.proven:
        remarks.append("there are too many splits to try them all: a still better one may exist")
    if starts(analysis.trace.run, case.layers, split.layers) is None:
        remarks.append(
            "with --attention-backend triton SGLang crashes at start on this split: choose another backend"
        )
    return remarks


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
