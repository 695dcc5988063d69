"""All analyses of one recording, in order: the single entry for commands and reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from bubblescope.analyzers import intervals as iv
from bubblescope.analyzers.activity import HOST_SPANS, Activity, activities, state_copies
from bubblescope.analyzers.advice.recommend import recommend
from bubblescope.analyzers.blame import blame, culprits
from bubblescope.analyzers.bursts import around_steps, bursts
from bubblescope.analyzers.concurrency import concurrency, ideal_bubble_ratio
from bubblescope.analyzers.findings.findings import findings
from bubblescope.analyzers.host_lead import late_hosts
from bubblescope.analyzers.kernels import kernel_times
from bubblescope.analyzers.layer_times import layer_times
from bubblescope.analyzers.layers import layers
from bubblescope.analyzers.microbatches import activation_sends, handovers, phase_marks, stage_spans
from bubblescope.analyzers.operations import operations
from bubblescope.analyzers.pipeline import Pipeline, pipeline
from bubblescope.analyzers.results import (
    BURSTS,
    CONCURRENCY,
    CULPRITS,
    Analysis,
    DeviceStates,
    Options,
    Stage,
)
from bubblescope.analyzers.sampled_tokens import with_tokens
from bubblescope.analyzers.shared_cards import doubts
from bubblescope.analyzers.states import timeline, totals
from bubblescope.analyzers.stragglers import stragglers
from bubblescope.analyzers.ttft import request_breakdowns
from bubblescope.analyzers.waits import waits
from bubblescope.trace import frames
from bubblescope.trace.model import Lost, Trace


def analyze(trace: Trace, options: Options | None = None) -> Analysis:
    """Everything that can be told from the recording; what cannot is in `lost`."""
    options = options or Options()
    ops = operations(trace)
    acts = activities(trace)
    named = pipeline(trace, ops.frame)
    stages = named.among([bool(len(act.work)) for act in acts])
    is_pipeline = len(stages.stages) > 1
    window, source = _window(trace, acts, options)
    leaders = _leaders(stages, acts, window) if is_pipeline else ()
    split = with_tokens(waits(ops.frame, stages), trace, stages)
    found = handovers(ops.frame, stages, acts, leaders)
    spans = trace.spans if len(trace.spans) else stage_spans(trace, stages, acts, leaders, found)
    marks = phase_marks(trace)
    opened = bursts(trace, acts, window[1], options.idle_gap_ns, marks)
    sends = activation_sends(ops.frame, stages)
    copies = iv.subtract(state_copies(trace.spans), iv.merge(*(act.compute for act in acts)))
    states = timeline(acts, split, opened, sends, window, copies)
    held, layers_from, layers_lost = (
        layers(trace, stages, spans, options.partition) if is_pipeline else (_all_layers(trace), None, ())
    )
    leading = leaders or _alone(acts, ops.frame)
    blamed = culprits(states, split.waits, stages, leaders, copies) if is_pipeline else frames.empty(CULPRITS)
    device_states = tuple(
        DeviceStates(device, named.stage_of[device], totals(states, device) if len(act.work) else {})
        for device, act in enumerate(acts)
    )
    built = tuple(_stage(stages, device, held, device_states, window) for device in leaders)
    inside = _clipped(opened, window)
    analysis = Analysis(
        trace=trace,
        window_ns=window,
        window_source=source,
        pipeline=is_pipeline,
        layers_from=layers_from,
        timeline=states,
        devices=device_states,
        stages=built,
        bubble_ratio=_bubble_ratio([device_states[device] for device in leaders], window),
        ideal_bubble_ratio=ideal_bubble_ratio(len(leaders), spans, inside) if is_pipeline else None,
        bursts=inside,
        blame=blame(blamed),
        concurrency=concurrency([acts[device].compute for device in leaders], window)
        if is_pipeline
        else frames.empty(CONCURRENCY),
        spans=spans,
        culprits=blamed,
        layer_times=layer_times(spans, leaders, window),
        kernel_times=kernel_times(trace, spans, stages if is_pipeline else _one(acts), leading, held, window),
        requests=request_breakdowns(trace, spans, states, leading, copies, window),
        stragglers=stragglers(trace, stages, spans, acts, ops.frame, held, window) if is_pipeline else (),
        lost=(
            *trace.run.lost,
            *ops.lost,
            *stages.lost,
            *layers_lost,
            *doubts(trace.run, built),
            *late_hosts(trace, stages, leaders, window),
            *_doubts(ops.frame, acts, inside, stages, spans, marks),
        ),
    )
    analysis = replace(analysis, recommendation=recommend(analysis))
    return replace(analysis, findings=findings(analysis))


def _leaders(stages: Pipeline, acts: Sequence[Activity], window: tuple[int, int]) -> tuple[int, ...]:
    """Of each stage the device with the most compute in the window, in stage order."""
    inside = [int(iv.covered_between(act.compute, *([at] for at in window))[0]) for act in acts]
    return tuple(
        max(stages.devices(stage), key=lambda device: (len(acts[device].work) > 0, inside[device], -device))
        for stage in stages.stages
    )


def _one(acts: Sequence[Activity]) -> Pipeline:
    """All devices that work as one stage."""
    return Pipeline(tuple(0 if len(act.work) else None for act in acts))


def _all_layers(trace: Trace) -> dict[int, int]:
    """Of the only stage, where the recording says that there is no other."""
    partition = trace.run.partition
    return {0: partition[0]} if partition is not None and len(partition) == 1 else {}


def _alone(acts: Sequence[Activity], ops: pd.DataFrame) -> tuple[int, ...]:
    """The device that works, where only one does and has nobody to talk to; else none."""
    working = tuple(device for device, act in enumerate(acts) if len(act.work))
    return working if len(working) == 1 and not len(ops) else ()


def _window(trace: Trace, acts: Sequence[Activity], options: Options) -> tuple[tuple[int, int], str]:
    if options.window_ns is not None:
        return options.window_ns, "flag"
    if trace.run.window_ns is not None and trace.run.window_ns[0] < trace.run.window_ns[1]:
        return trace.run.window_ns, "recording"
    working = [act for act in acts if len(act.work)]
    if not working:
        return (0, 0), "device work"
    # A receive is no step yet: it may be asked for while other ranks still start.
    steps = trace.spans[~trace.spans["kind"].isin((*HOST_SPANS, "recv"))]
    if len(steps):
        extent = int(steps["begin_ns"].min()), int(steps["end_ns"].max())
        return around_steps(working, *extent, options.idle_gap_ns), "device work"
    return (min(act.first for act in working), max(act.last for act in working)), "device work"


def _stage(
    stages: Pipeline,
    leader: int,
    held: dict[int, int],
    device_states: Sequence[DeviceStates],
    window: tuple[int, int],
) -> Stage:
    number = stages.stage_of[leader]
    assert number is not None
    others = tuple(device for device in stages.devices(number) if device != leader)
    own = device_states[leader]
    return Stage(number, (leader, *others), held.get(number), _bubble_ratio([own], window), own.states_ns)


def _bubble_ratio(states: Sequence[DeviceStates], window: tuple[int, int]) -> float | None:
    """1 - compute / (window - idle), over all given devices."""
    measured = [own.states_ns for own in states if own.states_ns]
    open_ns = sum(window[1] - window[0] - own["idle"] for own in measured)
    return 1 - sum(own["compute"] for own in measured) / open_ns if open_ns > 0 else None


def _clipped(opened: pd.DataFrame, window: tuple[int, int]) -> pd.DataFrame:
    begin = np.maximum(opened["begin_ns"].to_numpy(), window[0])
    end = np.minimum(opened["end_ns"].to_numpy(), window[1])
    kept = begin < end
    return frames.table(
        BURSTS,
        {"begin_ns": begin[kept], "end_ns": end[kept], "inferred": opened["inferred"].to_numpy()[kept]},
    )


def _doubts(
    ops: pd.DataFrame,
    acts: Sequence[Activity],
    inside: pd.DataFrame,
    stages: Pipeline,
    spans: pd.DataFrame,
    marks: pd.DataFrame,
) -> list[Lost]:
    """What the analysis had to guess, for the reader to know."""
    if not any(len(act.work) for act in acts):
        return [
            Lost("device activity", "the recording shows no work of any device, so no bubble can be told")
        ]
    doubts = []
    if len(inside) and bool(inside["inferred"].all()):
        doubts.append(
            Lost("requests", "not recorded; idle time is inferred from when all devices were quiet")
        )
    if not bool((ops["level"] == "device").any()) and len(stages.stages) > 1:
        doubts.append(Lost("communication", "not recorded; waiting for another stage is counted as host"))
    if not len(marks) and bool((spans["phase"] == "decode").any()):
        doubts.append(Lost("phases", "not recorded; steps that hand on little are taken to decode"))
    return doubts
