"""Analyses built by hand: what each stage did, one stretch after the other, in milliseconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from bubblescope.analyzers.results import (
    BLAME,
    BURSTS,
    CONCURRENCY,
    STATES,
    TIMELINE,
    Analysis,
    DeviceStates,
    Stage,
)
from bubblescope.trace.frames import REQUESTS, SPANS, empty, table
from bubblescope.trace.model import Device, Run, Trace

MS = 1_000_000
#: Not zero, as on no real clock: a report that shows absolute times is wrong.
BEGIN_NS = 1_700_000_000 * 10**9

Stretches = Sequence[tuple[str, int]]


def analysis(
    stages: Sequence[Stretches],
    *,
    blame: Sequence[tuple[int, int, str, int]] = (),
    layers: Sequence[int | None] | None = None,
    devices: Sequence[Device] | None = None,
    concurrency: Sequence[tuple[int, int]] = (),
    run: Run | None = None,
    **changes: Any,
) -> Analysis:
    """One device per stage; all stretches of a stage add up to the same window.

    blame: waiting stage, culprit stage, cause, milliseconds; concurrency: stages, milliseconds.
    changes: other fields of the Analysis.
    """
    run = run or Run(engine="vllm")
    devices = devices or [Device(rank=n, name="NVIDIA H200", stage=n) for n in range(len(stages))]
    window_ns = (BEGIN_NS, BEGIN_NS + sum(ms for _, ms in stages[0]) * MS if stages else BEGIN_NS)
    states = [_states(stretches) for stretches in stages]
    staged = tuple(
        Stage(n, (n,), None if layers is None else layers[n], _bubble(each), each)
        for n, each in enumerate(states)
    )
    active = sum(sum(each.values()) - each["idle"] for each in states)
    built = Analysis(
        trace=Trace(replace(run, devices=tuple(devices))),
        window_ns=window_ns,
        window_source="device work",
        pipeline=bool(stages),
        layers_from=None if layers is None else "recording",
        timeline=_timeline(stages),
        devices=tuple(DeviceStates(n, n, each) for n, each in enumerate(states)),
        stages=staged,
        bubble_ratio=1 - sum(each["compute"] for each in states) / active if active else None,
        ideal_bubble_ratio=None,
        bursts=table(BURSTS, _columns(BURSTS.columns, [(*window_ns, False)] if stages else [])),
        blame=table(BLAME, _columns(BLAME.columns, [(w, c, why, ms * MS) for w, c, why, ms in blame])),
        concurrency=table(
            CONCURRENCY, _columns(CONCURRENCY.columns, [(n, ms * MS) for n, ms in concurrency])
        ),
        spans=empty(SPANS),
    )
    return replace(built, **changes)


def requested(built: Analysis, rows: Sequence[tuple[str, int, int | None, int, bool]]) -> Analysis:
    """The same analysis of a recording with a request table.

    rows: name, arrival and first token in ms after the window's begin, prompt tokens, warm-up.
    """
    columns = {
        "request": [name for name, *_ in rows],
        "arrival_ns": [BEGIN_NS + arrival * MS for _, arrival, *_ in rows],
        "first_token_ns": [None if token is None else BEGIN_NS + token * MS for _, _, token, *_ in rows],
        "end_ns": [None if token is None else BEGIN_NS + (token + 10) * MS for _, _, token, *_ in rows],
        "prompt_tokens": [prompt for *_, prompt, _ in rows],
        "output_tokens": [-1 for _ in rows],
        "warmup": [warmup for *_, warmup in rows],
    }
    return replace(built, trace=replace(built.trace, requests=table(REQUESTS, columns)))


def without_devices_work(devices: Sequence[Device]) -> Analysis:
    """A recording that shows no work of its devices."""
    silent = tuple(DeviceStates(n, None, {}) for n in range(len(devices)))
    return replace(analysis([], devices=devices), devices=silent)


def _states(stretches: Stretches) -> dict[str, int]:
    totals = dict.fromkeys(STATES, 0)
    for state, ms in stretches:
        totals[state] += ms * MS
    return totals


def _bubble(states_ns: dict[str, int]) -> float | None:
    active = sum(states_ns.values()) - states_ns["idle"]
    return 1 - states_ns["compute"] / active if active else None


def _timeline(stages: Sequence[Stretches]) -> Any:
    rows = []
    for device, stretches in enumerate(stages):
        at = BEGIN_NS
        for state, ms in stretches:
            rows.append((device, state, at, at + ms * MS))
            at += ms * MS
    return table(TIMELINE, _columns(TIMELINE.columns, rows))


def _columns(names: Any, rows: Sequence[tuple[Any, ...]]) -> dict[str, list[Any]]:
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}
