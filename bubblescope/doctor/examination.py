"""Everything that is found out about one engine, model and rig."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bubblescope.doctor.formats import FORMATS
from bubblescope.doctor.invocation import NAMES, Invocation
from bubblescope.doctor.judgement import Judgement, judge, worst
from bubblescope.doctor.launch import mixed_rig, needs_gguf, remarks
from bubblescope.doctor.model_facts import ModelFacts
from bubblescope.doctor.placement import used_cards
from bubblescope.doctor.remark import Remark
from bubblescope.doctor.rig import Part
from bubblescope.doctor.rules import NEWEST
from bubblescope.doctor.rules.rule import Verdict
from bubblescope.doctor.versions import parse_version


@dataclass(frozen=True)
class Examination:
    """What is known, the judgement on each part of the rig, and remarks.

    version_assumed: the version was not found, and the newest one known was taken.
    """

    engine: str
    version: str
    version_assumed: bool
    model: ModelFacts
    devices: tuple[Judgement, ...]
    remarks: tuple[Remark, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst of the devices; "fails" also where the command cannot work."""
        if any(remark.verdict == "fails" for remark in self.remarks):
            return "fails"
        return worst([device.verdict for device in self.devices])

    @property
    def title(self) -> str:
        """Engine, version, weights and layers in one line."""
        version = f"{self.version} (assumed: the newest known here)" if self.version_assumed else self.version
        weights = FORMATS[self.model.format] if self.model.format else "unknown weights"
        layers = f", {self.model.layers} layers" if self.model.layers else ""
        return f"{NAMES[self.engine]} {version}, {weights}{layers}"


def examine(
    engine: str,
    version: str | None,
    model: ModelFacts,
    rig: Sequence[Part],
    command: Invocation | None = None,
    problem: Remark | None = None,
) -> Examination:
    """Judge capability, and with a command the launch too: then of the cards that it uses.

    problem: what already speaks against the launch, such as a model that does not exist.
    """
    taken = version or NEWEST[engine]
    number = parse_version(taken)
    used = used_cards(command, rig)
    devices = judge(engine, taken, model, used, command.kernels() if command else None)
    found = [problem] if problem else []
    mixed = mixed_rig(engine, used, [device.verdict for device in devices])
    found += [mixed] if mixed else []
    found += needs_gguf(engine, model, command)
    found += remarks(command, number, model, rig) if command else []
    found.sort(key=lambda remark: remark.verdict)
    return Examination(engine, taken, version is None, model, devices, tuple(found))
