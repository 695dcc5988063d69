"""What the stages lose their time to, each loss with the sentence that names it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from bubblescope.analyzers.advice.engines import chunk_flags, waits_for_answers
from bubblescope.analyzers.results import Analysis, Stage
from bubblescope.report.quantities import duration, share
from bubblescope.report.waits import (
    Wait,
    active_ns,
    count,
    named,
    sentence_case,
    token_phases,
    waits,
)

#: A loss below this share of a stage's time is none worth a sentence of its own.
WORTH_NAMING = 0.05
#: Stages whose compute differs by less than this factor are even.
_EVEN = 1.10
#: More than this many times the ideal bubble is not what filling and draining cost.
_FAR_ABOVE = 2.0
_LAUNCHES_LATE = "what it does there (scheduling, launching, synchronising) is too slow"


@dataclass(frozen=True)
class Loss:
    """One way in which stages lose time.

    ns: of all stages together. share: of the time of the stage that suffers most.
    kind: "split" where the text blames the split of the layers, "busy" where stages wait for one that
        computes and the split may be to blame all the same, "ends" of filling and draining, else "".
    """

    ns: int
    share: float
    text: str
    kind: str = ""


def losses(analysis: Analysis) -> list[Loss]:
    """What is worth naming, at most two, the larger first.

    One is what stages do to each other: of the waiting (by culprit and cause) and the transfers the
    largest, weighing as much as all of them together. The other is filling and draining.
    """
    rows = sorted(waits(analysis), key=_cause)
    between = [_of_waits(analysis, list(group)) for _, group in groupby(rows, key=_cause)]
    between.append(_transfer(analysis))
    together = sum(loss.ns for loss in between)
    largest = max(_worth_naming(between), key=lambda loss: loss.ns, default=None)
    ends = _ends(analysis)
    both = [ends] if largest is None else [replace(largest, ns=together), ends]
    named = sorted(_worth_naming(both), key=lambda loss: -loss.ns)
    return [loss for loss in named if 2 * loss.ns >= named[0].ns]


def untold(analysis: Analysis) -> bool:
    """Whether host time may be waiting for other stages: the recording shows no communication at all."""
    found = {state for stage in analysis.stages for state, ns in stage.states_ns.items() if ns}
    return "host" in found and found.isdisjoint({"transfer", "starved", "blocked"})


def _worth_naming(every: Sequence[Loss]) -> list[Loss]:
    return [loss for loss in every if loss.share >= WORTH_NAMING]


def _transfer(analysis: Analysis) -> Loss:
    total, worst, most = _in_states(analysis, ("transfer",))
    text = f"{worst} only moves data {share(most)} of the time, and computes nothing meanwhile."
    return Loss(total, most, text)


def _ends(analysis: Analysis) -> Loss:
    """Filling and draining. Only as much of it as an even pipeline has is cured by more microbatches."""
    total, worst, most = _in_states(analysis, ("fill", "drain"))
    active = sum(active_ns(stage.states_ns) for stage in analysis.stages)
    ideal = analysis.ideal_bubble_ratio
    if ideal is not None and total > _FAR_ABOVE * ideal * active:
        text = (
            f"{worst} has no work {share(most)} of the time before its first or after its last microbatch, "
            f"and filling and draining explain {share(ideal)}: look at how the bursts begin and end."
        )
    else:
        flags = chunk_flags(analysis.trace.run.engine)
        text = (
            f"{worst} has no work {share(most)} of the time because the pipeline fills and drains: "
            f"more and smaller chunks per prompt keep it full for longer{f' ({flags})' if flags else ''}."
        )
    return Loss(total, most, text, "ends")


def _in_states(analysis: Analysis, states: tuple[str, ...]) -> tuple[int, str, float]:
    """Of the states: their ns on all stages, and the stage with the largest share, with that share."""
    lost = [sum(stage.states_ns.get(state, 0) for state in states) for stage in analysis.stages]
    shares = [
        ns / max(active_ns(stage.states_ns), 1) for ns, stage in zip(lost, analysis.stages, strict=True)
    ]
    worst = max(range(len(shares)), key=shares.__getitem__)
    return sum(lost), sentence_case(named(analysis, analysis.stages[worst].stage)), shares[worst]


def _cause(wait: Wait) -> tuple[int, str]:
    return (-1 if wait.culprit is None else wait.culprit, wait.cause)


def _of_waits(analysis: Analysis, group: Sequence[Wait]) -> Loss:
    """Everything that one stage holds up in one way; the one that waits longest is named."""
    worst = max(group, key=lambda wait: wait.share)
    text = f"{sentence_case(_clause(analysis, worst))}.{_also(group, worst)}"
    return Loss(sum(wait.ns for wait in group), worst.share, text, _kind(analysis, worst))


def _kind(analysis: Analysis, wait: Wait) -> str:
    if wait.cause == "compute":
        return "split" if _uneven_compute(analysis, wait) else "busy"
    return "busy" if wait.cause == "token" and _token_phase(analysis, wait) == "prefill" else ""


def _also(group: Sequence[Wait], worst: Wait) -> str:
    """The others that wait for the same reason, where they are worth naming."""
    others = [wait for wait in group if wait.stage != worst.stage and wait.share >= WORTH_NAMING]
    if not others:
        return ""
    numbers = sorted(wait.stage for wait in others)
    who = f"Stage {numbers[0]} waits" if len(numbers) == 1 else f"Stages {_listed(numbers)} wait"
    low, high = share(min(wait.share for wait in others)), share(max(wait.share for wait in others))
    return f" {who} for it as well, {low if low == high else f'{low} to {high}'}."


def _listed(numbers: Sequence[int]) -> str:
    if len(numbers) > 6:
        return f"{numbers[0]} to {numbers[-1]} ({len(numbers)} of them)"
    return f"{', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


def _clause(analysis: Analysis, wait: Wait) -> str:
    """The wait as a clause with its most likely reason."""
    who, how_long = named(analysis, wait.stage), f"{share(wait.share)} of the time"
    if wait.culprit is None:
        return f"{who} waits {how_long}, and the recording does not tell for whom"
    if wait.culprit == wait.stage:
        return _own_clause(analysis, wait, who, how_long)
    whom = f"stage {wait.culprit}"
    if wait.cause == "compute":
        return f"{who} waits {how_long} for {whom}, {_imbalance(analysis, wait)}"
    reasons = {
        "transfer": f"for data on its way over the link of {whom}: the link is slow",
        "host": f"for {whom}, whose host launches its work too late",
        "state": f"for {whom}, whose host saves or restores KV caches",
        "token": f"for the tokens that {whom} samples{_awaited(analysis, wait)}",
        "follow_on": f"for {whom}, which itself waits, and who is first in that chain cannot be resolved",
    }
    unknown = f"for {whom}, and the recording does not show what held that stage up"
    return f"{who} waits {how_long} {reasons.get(wait.cause, unknown)}"


def _own_clause(analysis: Analysis, wait: Wait, who: str, how_long: str) -> str:
    if wait.cause == "tp_skew":
        return f"the ranks of {who} wait {how_long} for the slowest of their tensor-parallel group"
    if wait.cause == "host":
        return f"{who} could work, but {how_long} its own host has not launched anything: {_LAUNCHES_LATE}"
    if wait.cause == "state":
        return f"{who} could work, but {how_long} its own host saves or restores KV caches"
    return f"{who} waits {how_long} within itself, and why cannot be told"


def _awaited(analysis: Analysis, wait: Wait) -> str:
    """Why the sampled tokens were not there yet, as far as known."""
    phase = _token_phase(analysis, wait)
    if phase == "prefill" and waits_for_answers(analysis.trace.run):
        return (
            ": SGLang goes on only once an earlier batch has come back, and with "
            "--pp-async-batch-depth 1 or more it does so later"
        )
    return {
        "decode": ": too few batches are in flight",
        "prefill": f": stage {wait.culprit} still computes the end of a prompt, and no other prompt follows",
    }.get(phase, "")


def _token_phase(analysis: Analysis, wait: Wait) -> str:
    """ "prefill" or "decode", whichever holds most of the waiting for tokens; "" where neither does."""
    phases = token_phases(analysis, wait.stage, wait.culprit)
    decode, prefill = phases.get("decode", 0), phases.get("prefill", 0) + phases.get("mixed", 0)
    most = max(decode, prefill)
    if 2 * most <= sum(phases.values()):
        return ""
    return "decode" if decode == most else "prefill"


def _uneven_compute(analysis: Analysis, wait: Wait) -> bool:
    """Whether the stage waited for computes clearly longer than the one that waits."""
    compute = {stage.stage: stage.states_ns.get("compute", 0) for stage in analysis.stages}
    ours, theirs = compute.get(wait.stage), compute.get(-1 if wait.culprit is None else wait.culprit)
    return ours is not None and theirs is not None and theirs >= _EVEN * ours


def _imbalance(analysis: Analysis, wait: Wait) -> str:
    """Why a stage's compute keeps another one waiting: its layers, its device, or no overlap."""
    by_number = {stage.stage: stage for stage in analysis.stages}
    waiting = by_number.get(wait.stage)
    culprit = None if wait.culprit is None else by_number.get(wait.culprit)
    if waiting is None or culprit is None:
        return "which computes"
    ours, theirs = waiting.states_ns.get("compute", 0), culprit.states_ns.get("compute", 0)
    if not _uneven_compute(analysis, wait):
        return (
            f"although both compute about as long ({duration(ours)} and {duration(theirs)}): "
            "they take turns instead of overlapping"
        )
    return _uneven(waiting, culprit, f"{theirs / ours:.1f} times as long" if ours else duration(theirs))


def _uneven(waiting: Stage, culprit: Stage, longer: str) -> str:
    if waiting.layers is None or culprit.layers is None:
        return f"which computes {longer}: the split is uneven"
    layers = count(culprit.layers, "layer")
    if culprit.layers > waiting.layers:
        return f"which computes {layers}: the split is uneven"
    return f"which takes {longer} for its {layers}: it is slower, and the split does not make up for that"
