"""What was slower than its peers, and by how much in all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bubblescope.analyzers import intervals as iv
from bubblescope.analyzers.activity import Activity
from bubblescope.analyzers.clocks import Clock, clocks
from bubblescope.analyzers.grouping import grouped
from bubblescope.analyzers.pipeline import Pipeline
from bubblescope.analyzers.results import Straggler
from bubblescope.analyzers.waits import message_pairs
from bubblescope.trace.model import Trace

#: Below these shares a difference is noise: per layer between stages, per microbatch against its
#: stage's trend, of a clock against its own best, of a link against its twins.
STAGE_SHARE, MICROBATCH_SHARE, CLOCK_SHARE, LINK_SHARE = 0.05, 0.10, 0.05, 0.25
#: What a step costs whatever it computes weighs more per layer where there are few: with more than so
#: many times the layers of a peer only the stage that holds more of them can be called the slower one.
COMPARABLE_LAYERS = 2
#: A microbatch stands out by this many median deviations.
DEVIATIONS = 6.0
FEWEST = 4
#: Smaller messages tell how long a message takes at all, not how fast the link is.
LINK_BYTES = 1 << 16


def stragglers(
    trace: Trace,
    pipeline: Pipeline,
    spans: pd.DataFrame,
    activities: Sequence[Activity],
    operations: pd.DataFrame,
    layers: Mapping[int, int],
    window: tuple[int, int],
) -> tuple[Straggler, ...]:
    """Stages, microbatches, devices and links slower than their peers in the window, the costliest first."""
    inside = (spans["begin_ns"] >= window[0]) & (spans["end_ns"] <= window[1])
    whole = iv.span(*window)
    activities = [replace(own, compute=iv.intersect(own.compute, whole)) for own in activities]
    forward = _with_compute(spans[inside & (spans["kind"] == "forward")], activities)
    known = clocks(trace, activities)
    found = [
        *_slow_stages(trace, forward, layers, known),
        *_slow_microbatches(forward),
        *_slow_clocks(pipeline, activities, known),
        *_slow_links(operations, pipeline, window),
    ]
    return tuple(sorted(found, key=lambda straggler: -straggler.excess_ns))


def _with_compute(forward: pd.DataFrame, activities: Sequence[Activity]) -> pd.DataFrame:
    compute = np.zeros(len(forward), dtype=np.int64)
    for device in forward["device"].unique():
        own = (forward["device"] == device).to_numpy()
        compute[own] = iv.covered_between(
            activities[device].compute, forward["begin_ns"].to_numpy()[own], forward["end_ns"].to_numpy()[own]
        )
    return forward.assign(compute=compute)


def _slow_stages(
    trace: Trace, forward: pd.DataFrame, layers: Mapping[int, int], known: Mapping[int, Clock]
) -> list[Straggler]:
    """Stages that take longer per layer than the fastest on the same type of device, same microbatches."""
    prefill = forward[forward["phase"].isin(["prefill", "mixed"]) & forward["stage"].isin(list(layers))]
    if not len(prefill):
        return []
    table = prefill.pivot_table(index="microbatch", columns="stage", values="compute", aggfunc="sum").dropna()
    per_layer = {int(stage): float(table[stage].sum()) / layers[int(stage)] for stage in table.columns}
    device_of = prefill.groupby("stage")["device"].first()
    found = []
    for stage, cost in per_layer.items():
        name = trace.run.devices[int(device_of[stage])].name
        peers = [
            (other_cost, int(device_of[other]))
            for other, other_cost in per_layer.items()
            if other != stage
            and name is not None
            and trace.run.devices[int(device_of[other])].name == name
            and layers[other] <= COMPARABLE_LAYERS * layers[stage]
        ]
        best, fastest = min(peers, default=(0.0, 0))
        if best <= 0 or cost <= best * (1 + STAGE_SHARE):
            continue
        excess = int((cost - best) * layers[stage])
        share = cost / best - 1
        why = _explained(known.get(int(device_of[stage])), known.get(fastest), share)
        slower = f"{100 * share:.0f} % longer per layer"
        text = f"stage {stage} takes {slower} than the fastest stage on the same {name}{why}"
        found.append(Straggler("stage", stage, None, excess, text))
    return found


def _explained(own: Clock | None, fastest: Clock | None, share: float) -> str:
    """How the clocks of a slow stage and its peer explain at least half of what it is slower."""
    if own is None or fastest is None or fastest.mean_mhz / own.mean_mhz - 1 < share / 2:
        return ""
    return f", as its clock is lower: {own.mean_mhz:.0f} MHz against {fastest.mean_mhz:.0f}{_because(own)}"


def _slow_microbatches(forward: pd.DataFrame) -> list[Straggler]:
    """Prefill microbatches far above the line of compute over the position in the prompt."""
    found = []
    for (stage,), part in grouped(forward[forward["phase"] == "prefill"], "stage"):
        if len(part) < FEWEST or not (part["tokens"] > 0).all() or not (part["prefix"] >= 0).all():
            continue
        tokens = part["tokens"].to_numpy(dtype=np.float64)
        attended = tokens * (part["prefix"].to_numpy(dtype=np.float64) + tokens / 2)
        predicted = _robust_fit(
            np.column_stack((tokens, attended)), part["compute"].to_numpy(dtype=np.float64)
        )
        residual = part["compute"].to_numpy() - predicted
        spread = float(np.median(np.abs(residual)))
        for number, over, expected in zip(part["microbatch"].tolist(), residual, predicted, strict=True):
            if over > DEVIATIONS * spread and over > MICROBATCH_SHARE * expected:
                text = f"microbatch {number} took longer on stage {stage} than its size explains"
                found.append(Straggler("microbatch", stage, number, int(over), text))
    return found


def _robust_fit(columns: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Least squares, done again without what lies far off; returns the fitted values."""
    keep = np.ones(len(values), dtype=bool)
    fitted = values
    for _ in range(5):
        solution = np.linalg.lstsq(columns[keep], values[keep], rcond=None)[0]
        fitted = columns @ solution
        off = np.abs(values - fitted)
        kept = off <= max(DEVIATIONS * float(np.median(off)), 1.0)
        if kept.sum() < FEWEST or bool((kept == keep).all()):
            break
        keep = kept
    return np.asarray(fitted, dtype=np.float64)


def _slow_clocks(
    pipeline: Pipeline, activities: Sequence[Activity], clocks: Mapping[int, Clock]
) -> list[Straggler]:
    """Devices whose SM clock, while they computed, fell below what it had reached."""
    found = []
    for device, clock in clocks.items():
        if clock.mean_mhz < clock.best_mhz * (1 - CLOCK_SHARE):
            excess = int(iv.total(activities[device].compute) * (1 - clock.mean_mhz / clock.best_mhz))
            text = (
                f"device {device} ran at {clock.mean_mhz:.0f} MHz on average while computing, "
                f"{clock.best_mhz:.0f} at best{_because(clock)}"
            )
            found.append(Straggler("device", pipeline.stage_of[device], None, excess, text))
    return found


def _because(clock: Clock) -> str:
    return f": {clock.held_down_by}" if clock.reasons else ""


def _slow_links(operations: pd.DataFrame, pipeline: Pipeline, window: tuple[int, int]) -> list[Straggler]:
    """Links whose messages take longer than messages of the same size on the fastest link."""
    pairs = message_pairs(operations)
    pairs = pairs[(pairs["send_begin"] >= window[0]) & (pairs["recv_end"] <= window[1])]
    pairs = pairs[(pairs["send_end"] > pairs["recv_begin"]) & (pairs["bytes"] >= LINK_BYTES)]
    moved = pairs["recv_end"] - np.maximum(pairs["send_begin"], pairs["recv_begin"])
    timed = pairs.assign(moved=moved)
    excess: dict[tuple[int, int], int] = {}
    for _, twins in grouped(timed, "bytes"):
        links = {
            edge: part["moved"] for edge, part in grouped(twins, "source", "target") if len(part) >= FEWEST
        }
        best = min((float(moved.median()) for moved in links.values()), default=0.0)
        for (source, target), moved in links.items():
            over = float(moved.median()) - best
            if over > LINK_SHARE * best:
                excess[source, target] = excess.get((source, target), 0) + int(over * len(moved))
    stage = pipeline.stage_of
    return [
        Straggler(
            "link",
            stage[b],
            None,
            ns,
            f"the link from stage {stage[a]} to {stage[b]} is slower than the fastest",
        )
        for (a, b), ns in excess.items()
    ]
