"""Playing llama.cpp's schedule again: a host that submits one ubatch after the other to all devices.

Read in ggml/src/ggml-backend.cpp and src/llama-context.cpp of b11434. The scheduler keeps several copies
of the inputs. Before the host fills a copy in again for a device, the device must be done with the ubatch
that used it. With a single copy it fills that in for a device only when the activations have arrived there.
A reused graph is begun only when all devices are done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bubblescope.analyzers.findings.ubatches import APART_NS, Ubatches

Floats = NDArray[np.float64]

#: GGML_SCHED_MAX_COPIES, as llama.cpp is built unless told otherwise.
COPIES = 4
#: A smaller share saved is not worth a change.
WORTH = 0.01


@dataclass(frozen=True)
class Plan:
    """One prompt: S stages × M ubatches.

    busy_ns: (S, M). before_ns: (M,), the host's work until the first device can begin; after_ns: (M,), what
    it does besides. drained: (M,), the host waits for all devices first. copies: of the inputs.
    """

    busy_ns: Floats
    before_ns: Floats
    after_ns: Floats
    drained: NDArray[np.bool_]
    copies: int

    def makespan_ns(self) -> float:
        """From the host's first work to the last device's end."""
        stages, count = self.busy_ns.shape
        ends = np.zeros((count + 1, stages))
        now = 0.0
        for ubatch in range(count):
            if self.drained[ubatch]:
                now = max(now, float(ends[ubatch].max()))
            now += self.before_ns[ubatch]
            arrived = 0.0
            for stage in range(stages):
                if self.copies == 1:
                    now = max(now, arrived)
                now = max(now, float(ends[max(ubatch + 1 - self.copies, 0), stage]))
                begin = max(now, float(ends[ubatch, stage]), arrived)
                arrived = ends[ubatch + 1, stage] = begin + self.busy_ns[stage, ubatch]
                now += self.after_ns[ubatch] / stages
        return float(ends.max())


@dataclass(frozen=True)
class Replay:
    """The prompts of a recording, ready to be played again.

    plans: one per prompt, as recorded. error: by what share playing misses the recorded makespans.
    """

    found: Ubatches
    plans: tuple[Plan, ...]
    error: float

    @property
    def makespan_ns(self) -> float:
        """Mean over the prompts, as recorded."""
        return float(self.found.makespan_ns().mean())

    def saved(self, changed: Sequence[Plan]) -> float:
        """The share of a prompt's time that other plans would save; negative where they take longer."""
        now = sum(plan.makespan_ns() for plan in self.plans)
        return 1 - sum(plan.makespan_ns() for plan in changed) / max(now, 1.0)

    def without(self, rows: pd.DataFrame) -> list[Plan]:
        """The plans without these spans of the host's work."""
        first = self.found.total_ns(rows[before_first(rows)]).astype(np.float64)
        later = self.found.total_ns(rows[~before_first(rows)]).astype(np.float64)
        parts = [self.found.of_prompt(number) for number in range(self.found.prompts)]
        return [
            replace(
                plan,
                before_ns=np.maximum(plan.before_ns - first[part], 0),
                after_ns=np.maximum(plan.after_ns - later[part], 0),
            )
            for plan, part in zip(self.plans, parts, strict=True)
        ]


def before_first(spans: pd.DataFrame) -> pd.Series:
    """Which of the host's spans must be over before the first device can begin its ubatch."""
    inputs = (spans["kind"] == "copy") & (spans["stage"] == 0)
    return spans["kind"].isin(("schedule", "embed")) | inputs


def replay(found: Ubatches, copies: int) -> Replay:
    """The recorded prompts, with so many copies of the inputs."""
    before = found.total_ns(found.spans[before_first(found.spans)]).astype(np.float64)
    after = _after_ns(found, before)
    made = []
    for number in range(found.prompts):
        part = found.of_prompt(number)
        busy = found.busy_ns[:, part].astype(np.float64)
        made.append(Plan(busy, before[part], after[part], found.drained[part], copies))
    recorded = found.makespan_ns()
    played = np.array([plan.makespan_ns() for plan in made])
    return Replay(found, tuple(made), float(np.mean(np.abs(played - recorded) / np.maximum(recorded, 1))))


def _after_ns(found: Ubatches, before_ns: Floats) -> Floats:
    """(M,): what the host does for a ubatch besides `before_ns`: handing graphs to devices, above all.

    Where a device went straight from the ubatch before to one that it had been given long ago, the host is
    ahead of it, and handing over may have had to wait for room in the device's queue. It then counts as much
    as where the host was not ahead.
    """
    whole = np.maximum(found.end_ns - found.begin_ns - found.waited_ns, 0)
    after = np.maximum(whole - before_ns, 0)
    pause = found.first_ns - np.roll(found.done_ns, 1, axis=1)
    behind = (found.first_ns >= found.end_ns) & (pause <= APART_NS)
    ahead = behind.any(axis=0) | np.append(found.prompt[1:] != found.prompt[:-1], True)
    usual = float(np.median(after[~ahead])) if not ahead.all() else float(after.min())
    return np.asarray(np.where(ahead, np.minimum(after, usual), after), dtype=np.float64)
