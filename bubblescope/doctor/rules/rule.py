"""One statement about an engine, and when it holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bubblescope.doctor.capability import Capability
from bubblescope.doctor.versions import parse_version

Verdict = Literal["native", "emulated", "fails", "unknown"]

#: Kernels that a command line can force: those that need FP4 units, or the weight-only ones.
Kernels = Literal["native", "weight-only"]

ANY: tuple[Capability, Capability] = ((0, 0), (99, 0))


@dataclass(frozen=True)
class Rule:
    """Of the rules of an engine the first that holds decides.

    formats: keys of `bubblescope.doctor.formats.FORMATS`.
    capability: from, up to and without. The newest cards known are 12.1: what comes after is unknown.
    since, before: versions, from, up to and without; None: no bound.
    kernels: holds only where the command forces these; None: whatever it says.
    experts: holds only for models with experts (True) or without (False).
    reason: why, in words that follow the engine's name and version.
    way_out: what to do; "" where there is nothing to do.
    source: version and file in which it was read.
    """

    engine: str
    formats: tuple[str, ...]
    capability: tuple[Capability, Capability]
    verdict: Verdict
    reason: str
    source: str
    since: str | None = None
    before: str | None = None
    kernels: Kernels | None = None
    experts: bool | None = None
    way_out: str = ""

    def holds(
        self,
        engine: str,
        version: tuple[int, ...],
        weights: str,
        capability: Capability,
        kernels: Kernels | None,
        experts: bool,
    ) -> bool:
        """Whether it says something about this engine, checkpoint and card."""
        return (
            self.engine == engine
            and weights in self.formats
            and self.capability[0] <= capability < self.capability[1]
            and (self.since is None or version >= _version(self.since))
            and (self.before is None or version < _version(self.before))
            and self.kernels in (None, kernels)
            and self.experts in (None, experts)
        )


def _version(text: str) -> tuple[int, ...]:
    version = parse_version(text)
    assert version is not None, f"a rule names a version that cannot be read: {text}"
    return version
