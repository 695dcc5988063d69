"""What an engine will do with a checkpoint on each card of a rig."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bubblescope.doctor.capability import shown
from bubblescope.doctor.formats import FORMATS
from bubblescope.doctor.invocation import NAMES
from bubblescope.doctor.model_facts import ModelFacts
from bubblescope.doctor.rig import Part
from bubblescope.doctor.rules import RULES
from bubblescope.doctor.rules.rule import Kernels, Verdict
from bubblescope.doctor.versions import Version, parse_version

#: Where each engine takes the layers of a stage from.
_SHARES = {
    "vllm": "VLLM_PP_LAYER_PARTITION",
    "sglang": "SGLANG_PP_LAYER_PARTITION",
    "llama.cpp": "--tensor-split",
}
#: From the best to the worst; a rig is as good as its worst part.
VERDICTS: tuple[Verdict, ...] = ("native", "emulated", "unknown", "fails")


@dataclass(frozen=True)
class Judgement:
    """The verdict on one part of a rig. way_out and source are "" where there is none."""

    part: Part
    verdict: Verdict
    reason: str
    way_out: str
    source: str


def judge(
    engine: str, version: str, model: ModelFacts, rig: Sequence[Part], kernels: Kernels | None
) -> tuple[Judgement, ...]:
    """One judgement for each part: by the first rule that holds, or "unknown"."""
    number = parse_version(version)
    found = [_judge(engine, version, number, model, part, kernels) for part in rig]
    if any(each.verdict == "native" for each in found):
        found = [_lightened(engine, each) if each.verdict == "emulated" else each for each in found]
    return tuple(found)


def _lightened(engine: str, slow: Judgement) -> Judgement:
    """A card that emulates beside native ones is to hold less."""
    fewer = f"give it fewer layers than native cards: {_SHARES[engine]}"
    return replace(slow, way_out="; or ".join(filter(None, (fewer, slow.way_out))))


def _judge(
    engine: str, version: str, number: Version | None, model: ModelFacts, part: Part, kernels: Kernels | None
) -> Judgement:
    unknown = _unknown(engine, version, number, model, part)
    if unknown is not None or part.capability is None or model.format is None or number is None:
        return Judgement(part, "unknown", *(unknown or ("", "")), source="")
    for rule in RULES:
        if rule.holds(engine, number, model.format, part.capability, kernels, model.experts):
            reason = f"{NAMES[engine]} {version} {rule.reason}"
            if rule.verdict == "fails":
                reason += f"; this card has {shown(part.capability)}"
            return Judgement(part, rule.verdict, reason, rule.way_out, rule.source)
    what = f"{NAMES[engine]} {version} with {FORMATS[model.format]} on {shown(part.capability)}"
    return Judgement(part, "unknown", f"no source was read that tells about {what}", "", "")


def _unknown(
    engine: str, version: str, number: Version | None, model: ModelFacts, part: Part
) -> tuple[str, str] | None:
    """Reason and way out where something is missing to judge by."""
    if part.capability is None:
        return (
            "not a card that is known here; only NVIDIA's are",
            "of an NVIDIA card the driver tells on its own machine: leave --devices out",
        )
    if model.format is None:
        return (
            f"the weight format of {model.name} is not known",
            "name a folder with its config.json: --model DIR",
        )
    if number is None:
        return f"{version!r} is no version of {NAMES[engine]}", "name one: --engine-version"
    return None


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict on a whole; "unknown" on nothing."""
    return max(verdicts, key=VERDICTS.index, default="unknown")
