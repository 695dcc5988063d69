"""Where the time to first token of each request went, as parts that sum to it.

The critical path is walked back from the first token: a microbatch on a stage could begin once
its stage was free and its input had arrived; whichever came last is the step before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from bubblescope.analyzers import intervals as iv
from bubblescope.analyzers.grouping import grouped
from bubblescope.analyzers.pipeline import Pipeline
from bubblescope.analyzers.results import RequestBreakdown
from bubblescope.trace.model import Trace

#: What a gap in the path is called, by the state of the device that the path goes on with.
_GAP = {"host": "host", "transfer": "transfer", "idle": "outside", "compute": "queue"}


@dataclass(frozen=True)
class _Step:
    """One microbatch on one stage."""

    stage: int
    device: int
    microbatch: int
    begin: int
    end: int


def request_breakdowns(
    trace: Trace, pipeline: Pipeline, spans: pd.DataFrame, timeline: pd.DataFrame, leaders: Sequence[int]
) -> tuple[RequestBreakdown, ...]:
    """One entry per measured request, in order of arrival."""
    steps = _steps(spans, leaders)
    starts = sorted(spans.loc[spans["prefix"] == 0, "microbatch"].unique().tolist())
    found = []
    measured = trace.requests[~trace.requests["warmup"]]
    answered = measured["first_token_ns"].notna().tolist()
    columns = (
        measured[name].tolist() for name in ("request", "arrival_ns", "first_token_ns", "prompt_tokens")
    )
    for (request, arrival, first, tokens), known in zip(zip(*columns, strict=True), answered, strict=True):
        parts = _breakdown(arrival, first, steps, starts, timeline) if known else {}
        ttft = first - arrival if known else None
        found.append(RequestBreakdown(request, arrival, ttft, tokens, parts))
    return tuple(found)


def _steps(spans: pd.DataFrame, leaders: Sequence[int]) -> list[_Step]:
    forward = spans[
        (spans["kind"] == "forward") & spans["device"].isin(leaders) & (spans["phase"] != "decode")
    ]
    steps = [
        _Step(stage, device, microbatch, int(part["begin_ns"].min()), int(part["end_ns"].max()))
        for (stage, device, microbatch), part in grouped(forward, "stage", "device", "microbatch")
    ]
    return sorted(steps, key=lambda step: step.end)


def _breakdown(
    arrival: int, first: int, steps: Sequence[_Step], starts: Sequence[int], timeline: pd.DataFrame
) -> dict[str, int]:
    """Parts of one request's TTFT; empty where no microbatch ended between arrival and first token."""
    last_stage = max((step.stage for step in steps), default=0)
    done = [step for step in steps if step.stage == last_stage and arrival < step.end <= first]
    if not done:
        return {}
    parts = dict.fromkeys(("queue", "host", "transfer", "bubble", "outside"), 0)
    parts |= {f"compute_stage_{stage}": 0 for stage in sorted({step.stage for step in steps})}
    # Microbatches before the request's own first chunk are other requests' work: it queued.
    own = max((start for start in starts if start <= done[-1].microbatch), default=0)
    at, device = first, done[-1].device
    for step in _path(done[-1], steps, arrival):
        begin, end = max(step.begin, arrival), min(step.end, at)
        _share_gap(parts, end, at, timeline, step.device, after_work=at == first)
        parts[f"compute_stage_{step.stage}" if step.microbatch >= own else "queue"] += max(end - begin, 0)
        at, device = min(begin, at), step.device
    _share_gap(parts, arrival, at, timeline, device, after_work=False)
    return parts


def _path(step: _Step, steps: Sequence[_Step], arrival: int) -> Iterator[_Step]:
    """The step and what it had to wait for, back to the arrival."""
    current: _Step | None = step
    while current is not None and current.end > arrival:
        yield current
        current = _before(current, steps)


def _before(step: _Step, steps: Sequence[_Step]) -> _Step | None:
    """Of what made the input and the stage's previous microbatch, the one that ended later."""
    free = [other for other in steps if other.stage == step.stage and other.end <= step.begin]
    made = [
        other
        for other in steps
        if other.microbatch == step.microbatch and other.stage < step.stage and other.begin < step.begin
    ]
    return max([*made[-1:], *free[-1:]], key=lambda other: other.end, default=None)


def _share_gap(
    parts: dict[str, int], begin: int, end: int, timeline: pd.DataFrame, device: int, after_work: bool
) -> None:
    """Share a gap of the path out by what the device that it goes on with did."""
    if end <= begin:
        return
    own = timeline[timeline["device"] == device]
    times = own[["begin_ns", "end_ns"]].to_numpy().astype(np.int64)
    _, row, common = iv.overlaps(iv.span(begin, end), times)
    length = common[:, 1] - common[:, 0]
    for state, ns in zip(own["state"].astype(object).to_numpy()[row], length.tolist(), strict=True):
        outside = after_work and state in ("drain", "host")
        parts["outside" if outside else _GAP.get(state, "bubble")] += ns
    parts["outside"] += end - begin - int(length.sum())
