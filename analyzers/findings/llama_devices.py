"""Devices of llama.cpp's that hold no layers, and what they would take over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from bubblescope.analyzers.advice.engines import words
from bubblescope.analyzers.advice.tensor_split import held_layers
from bubblescope.analyzers.findings.replay import WORTH, Replay
from bubblescope.analyzers.results import Analysis, Finding
from bubblescope.trace.model import Run


def without_layers(analysis: Analysis, played: Replay) -> Iterator[Finding]:
    """A device to which the shares left the output layer only.

    What it takes for a layer does not show. If it is of the same kind as the others, it is taken to need as
    much as they do.
    """
    run = analysis.trace.run
    names = [device.name for device in run.devices]
    output = run.facts.get("llama_output_device")
    if not isinstance(output, str) or output in (*names, "CPU") or not run.partition or None in names:
        return
    even = held_layers(sum(run.partition), -1, (1,) * (len(names) + 1))
    text = f"{output} holds no layers, only the output layer"
    finding = Finding("device-without-layers", 0, None, text, words(run, even, [*names, output]))
    gain = _gain(played, run.partition, even) if _alike(run, [*names, output]) else 0.0
    if gain > max(WORTH, played.error):
        finding = replace(finding, ns=round(gain * played.makespan_ns), predicted_gain=gain)
    yield finding


def _gain(played: Replay, held: Sequence[int], even: Sequence[int]) -> float:
    """Of layers spread evenly over one device more, each at what a layer takes on average."""
    changed = []
    for plan in played.plans:
        of_layer = plan.busy_ns.sum(axis=0) / sum(held)
        changed.append(replace(plan, busy_ns=np.outer(np.asarray(even, dtype=np.float64), of_layer)))
    return played.saved(changed)


def _alike(run: Run, names: Sequence[str | None]) -> bool:
    """Whether their vendor calls them the same."""
    called = run.facts.get("llama_device_descriptions")
    if not isinstance(called, Mapping):
        return False
    kinds = {str(called.get(name)) for name in names}
    return len(kinds) == 1 and "None" not in kinds
