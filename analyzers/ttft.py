"""Where the time to first token of each request went, as parts that sum to it.

The critical path is walked back from the first token: a microbatch on a stage could begin once
its stage was free and its input had arrived; whichever came last is the step before it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bubblescope.analyzers import intervals as iv
from bubblescope.analyzers.grouping import grouped
from bubblescope.analyzers.results import RequestBreakdown
from bubblescope.analyzers.states import with_copies
from bubblescope.trace.model import Trace

#: What a gap in the path is called, by the state of the device that the path goes on with.
_GAP = {"host": "host", "state": "state", "transfer": "transfer", "idle": "outside", "compute": "queue"}


@dataclass(frozen=True)
class _Timeline:
    """One device's stretches of time in order and their states, and of them those of its host."""

    times: iv.Intervals
    states: NDArray[np.object_]
    host: iv.Intervals


@dataclass(frozen=True)
class _Step:
    """One microbatch on one stage."""

    stage: int
    device: int
    microbatch: int
    begin: int
    end: int


@dataclass(frozen=True)
class _Schedule:
    """Every prefill step, by stage in order of its end and by microbatch in order of stages."""

    by_stage: dict[int, list[_Step]]
    by_microbatch: dict[int, list[_Step]]

    def last(self, stage: int, until: int) -> _Step | None:
        """The stage's last step that had ended by then."""
        steps = self.by_stage.get(stage, [])
        at = bisect_right(steps, until, key=lambda step: step.end)
        return steps[at - 1] if at else None

    def before(self, step: _Step) -> _Step | None:
        """Of what made the input and the stage's previous microbatch, the one that ended later."""
        made = [other for other in self.by_microbatch[step.microbatch] if other.stage < step.stage]
        free = self.last(step.stage, step.begin)
        candidates = [*made, *([free] if free else [])]
        # Only earlier ones, so that a walk back ends whatever a recording claims.
        earlier = [other for other in candidates if other.begin < step.begin]
        return max(earlier, key=lambda other: other.end, default=None)


def request_breakdowns(
    trace: Trace,
    spans: pd.DataFrame,
    timeline: pd.DataFrame,
    leaders: Sequence[int],
    copies: iv.Intervals,
    window: tuple[int, int],
) -> tuple[RequestBreakdown, ...]:
    """One entry per measured request, in order of arrival; without parts if it reaches out of the window.

    copies: when states of sequences were copied.
    """
    measured = trace.requests[~trace.requests["warmup"]]
    if not len(measured):
        return ()
    schedule = _schedule(spans, leaders)
    timelines = {device: _of_device(own, copies) for (device,), own in grouped(timeline, "device")}
    starts = sorted(spans.loc[spans["prefix"] == 0, "microbatch"].unique().tolist())
    answered = measured["first_token_ns"].notna().tolist()
    columns = (
        measured[name].tolist() for name in ("request", "arrival_ns", "first_token_ns", "prompt_tokens")
    )
    found = []
    for (request, arrival, first, tokens), known in zip(zip(*columns, strict=True), answered, strict=True):
        inside = known and window[0] <= arrival and first <= window[1]
        parts = _breakdown(arrival, first, schedule, starts, timelines) if inside else {}
        ttft = first - arrival if known else None
        found.append(RequestBreakdown(request, arrival, ttft, tokens, parts))
    return tuple(found)


def _schedule(spans: pd.DataFrame, leaders: Sequence[int]) -> _Schedule:
    forward = spans[
        (spans["kind"] == "forward") & spans["device"].isin(leaders) & (spans["phase"] != "decode")
    ]
    key = ["stage", "device", "microbatch"]
    merged = (
        forward.groupby(key)[["begin_ns", "end_ns"]].agg({"begin_ns": "min", "end_ns": "max"}).reset_index()
    )
    schedule = _Schedule({}, {})
    columns = (merged[name].tolist() for name in (*key, "begin_ns", "end_ns"))
    for step in sorted(map(_Step, *columns), key=lambda step: (step.stage, step.end)):
        schedule.by_stage.setdefault(step.stage, []).append(step)
        schedule.by_microbatch.setdefault(step.microbatch, []).append(step)
    return schedule


def _breakdown(
    arrival: int, first: int, schedule: _Schedule, starts: Sequence[int], timelines: dict[int, _Timeline]
) -> dict[str, int]:
    """Parts of one request's TTFT; empty where no microbatch ended between arrival and first token."""
    final = schedule.last(max(schedule.by_stage, default=0), first)
    if final is None or final.end <= arrival:
        return {}
    parts = dict.fromkeys(("queue", "host", "transfer", "bubble", "outside"), 0)
    parts |= {f"compute_stage_{stage}": 0 for stage in sorted(schedule.by_stage)}
    # Microbatches before the request's own first chunk are other requests' work: it queued.
    before = bisect_right(starts, final.microbatch)
    own = starts[before - 1] if before else 0
    at, device = first, final.device
    for step in _path(final, schedule, arrival):
        begin, end = max(step.begin, arrival), min(step.end, at)
        _share_gap(parts, end, at, timelines[step.device], after_work=at == first)
        work = f"compute_stage_{step.stage}" if step.microbatch >= own else "queue"
        _share_work(parts, begin, end, timelines[step.device], work)
        at, device = min(begin, at), step.device
    _share_gap(parts, arrival, at, timelines[device], after_work=False)
    return parts


def _path(step: _Step, schedule: _Schedule, arrival: int) -> Iterator[_Step]:
    """The step and what it had to wait for, back to the arrival."""
    current: _Step | None = step
    while current is not None and current.end > arrival:
        yield current
        current = schedule.before(current)


def _of_device(own: pd.DataFrame, copies: iv.Intervals) -> _Timeline:
    times, states = with_copies(own, copies)
    return _Timeline(times, states, times[states == "host"])


def _share_work(parts: dict[str, int], begin: int, end: int, timeline: _Timeline, work: str) -> None:
    """Share out a step: where its kernels are known, its device may wait for its host in between."""
    if end <= begin:
        return
    waited = iv.total(iv.intersect(iv.span(begin, end), timeline.host))
    parts["host"] += waited
    parts[work] += end - begin - waited


def _share_gap(parts: dict[str, int], begin: int, end: int, timeline: _Timeline, after_work: bool) -> None:
    """Share a gap of the path out by what the device that it goes on with did."""
    if end <= begin:
        return
    _, row, common = iv.overlaps(iv.span(begin, end), timeline.times)
    length = common[:, 1] - common[:, 0]
    for state, ns in zip(timeline.states[row].tolist(), length.tolist(), strict=True):
        outside = after_work and state in ("drain", "host")
        part = "outside" if outside else _GAP.get(state, "bubble")
        parts[part] = parts.get(part, 0) + ns
    parts["outside"] += end - begin - int(length.sum())
