"""Which stage each device is: as the recording names it, else from who sends to whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd

from bubblescope.analyzers.grouping import grouped
from bubblescope.trace.model import Lost, Trace

#: A flow this much thinner than the thickest carries results back, not activations forward.
RETURN_SHARE = 64

Edge = tuple[int, int]


@dataclass(frozen=True)
class Pipeline:
    """`stage_of[device]` is None where a device belongs to no stage."""

    stage_of: tuple[int | None, ...]
    lost: tuple[Lost, ...] = ()

    @property
    def stages(self) -> tuple[int, ...]:
        """The stages in order; fewer than two: the recording is no pipeline."""
        return tuple(sorted({stage for stage in self.stage_of if stage is not None}))

    def among(self, working: Sequence[bool]) -> Pipeline:
        """The same without devices that did nothing, or no stages where fewer than two did something."""
        did = {stage for stage, worked in zip(self.stage_of, working, strict=True) if worked}
        kept = did if len(did - {None}) > 1 else set()
        return replace(self, stage_of=tuple(stage if stage in kept else None for stage in self.stage_of))

    def devices(self, stage: int) -> tuple[int, ...]:
        """The devices of one stage."""
        return tuple(device for device, own in enumerate(self.stage_of) if own == stage)


def pipeline(trace: Trace, operations: pd.DataFrame) -> Pipeline:
    """The stages of the recording; empty `stages` where it is not a pipeline."""
    named = _named(trace)
    if len({stage for stage in named if stage is not None}) > 1:
        return Pipeline(named)
    messages = operations[
        operations["kind"].isin(["send", "recv"])
        & (operations["level"] == "device")
        & (operations["source"] >= 0)
        & (operations["target"] >= 0)
        & (operations["source"] != operations["target"])
    ]
    depth = _depths(_forward_edges(messages))
    if depth is None:
        why = "sends and receives go round in a circle, so no order of stages follows from them"
        return Pipeline((None,) * len(trace.run.devices), (Lost("stages unknown", why),))
    if not depth:
        return Pipeline((None,) * len(trace.run.devices))
    return Pipeline(tuple(depth.get(device) for device in range(len(trace.run.devices))))


def _named(trace: Trace) -> tuple[int | None, ...]:
    stages = [device.stage for device in trace.run.devices]
    for device, stage in trace.spans[["device", "stage"]].drop_duplicates().to_numpy():
        stages[device] = int(stage)
    return tuple(stages)


def _forward_edges(messages: pd.DataFrame) -> list[Edge]:
    """Edges along which activations flow: of two directions the heavier, else the first used."""
    if not len(messages):
        return []
    flows = list(grouped(messages.assign(weight=messages["bytes"].clip(lower=1)), "source", "target"))
    weight = {(a, b): int(flow["weight"].sum()) for (a, b), flow in flows}
    first = {(a, b): int(flow["begin_ns"].min()) for (a, b), flow in flows}
    heaviest = max(weight.values())
    kept = []
    for edge in weight:
        back = (edge[1], edge[0])
        if weight[edge] * RETURN_SHARE < heaviest:
            continue
        if back in weight and weight[back] > 2 * weight[edge]:
            continue
        if back in weight and weight[edge] <= 2 * weight[back] and first[back] < first[edge]:
            continue
        kept.append(edge)
    return kept


def _depths(edges: list[Edge]) -> dict[int, int] | None:
    """Longest path from a source to each node; None where the edges hold a circle."""
    depth = {node: 0 for edge in edges for node in edge}
    for _ in range(len(depth)):
        changed = False
        for source, target in edges:
            if depth[target] <= depth[source]:
                depth[target], changed = depth[source] + 1, True
        if not changed:
            return depth
    return None if edges else depth
