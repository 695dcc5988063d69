"""What keeps llama.cpp's devices from working at the same time, and what they would gain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from bubblescope.analyzers.findings.replay import COPIES, WORTH, Plan, Replay
from bubblescope.analyzers.results import Finding

#: A ubatch of fewer tokens meets a graph to reuse (the KV cache grows in steps of so many), and costs the
#: host as much as a larger one.
SMALL_UBATCH = 256
#: llama.cpp's own sizes.
UBATCH, BATCH = 512, 2048
_OVERRIDES = ("ot", "cmoe", "ncmoe")


def switched_off(played: Replay, facts: Mapping[str, Any]) -> Iterator[Finding]:
    """Pipelining that is off although there are several devices: one finding per condition that failed."""
    lacks = facts.get("llama_pipelining_lacks")
    reasons = [each for each in lacks if isinstance(each, str)] if isinstance(lacks, list) else []
    if facts.get("llama_pipelining") is not False or "devices" in reasons:
        return
    flags = _flags(facts)
    spans = played.found.spans
    gain = None
    if not bool((spans["kind"] == "split").any()):
        pipelined = [
            replace(plan, drained=np.zeros_like(plan.drained), copies=COPIES) for plan in played.plans
        ]
        gain = 1 - sum(plan.makespan_ns() for plan in pipelined) / float(played.found.makespan_ns().sum())
    ns = _idle_ns(played) if gain is None else max(round(gain * played.makespan_ns), 0)
    told = gain if gain is not None and gain > max(WORTH, played.error) and len(reasons) == 1 else None
    off = "the devices work one after the other, because pipelining is off"
    if not reasons:
        text = f"{off}; why does not show (it is also given up where memory for {COPIES} copies lacks)"
        yield Finding("pipelining-off", ns, None, text)
    for reason in reasons:
        if reason == "ot":
            named = [f"-{name}" + _value(flags[name]) for name in _OVERRIDES if name in flags]
            text = f"{off}: any tensor moved by -ot, -cmoe or -ncmoe does that"
            flag = f"remove {' '.join(named)}" if named else "remove -ot, -cmoe and -ncmoe"
            yield Finding("override-drain", ns, None, text, flag, told)
        elif reason == "nkvo":
            text = f"{off}: with -nkvo the KV cache is on the CPU, and so is attention"
            yield Finding("kv-cache-on-cpu", ns, None, text, "remove -nkvo", told)
        elif reason == "ngl":
            text = f"{off}: not all layers are on devices, the output layer included"
            yield Finding("layers-on-cpu", ns, None, text, "-ngl 99", told)
        elif reason == "sm":
            text = f"{off}: the model is not split by layers"
            yield Finding("pipelining-off", ns, None, text, "-sm layer", told)
        elif reason == "events":
            text = f"{off}: a device cannot compute while the host goes on"
            yield Finding("pipelining-off", ns, None, text)


def drained_by_reuse(played: Replay) -> Iterator[Finding]:
    """A graph that is used again makes the host wait until all devices are done."""
    found = played.found
    if not bool(found.drained.any()):
        return
    rebuilding = _building_ns(played)
    changed = [_undrained(plan, plan.copies, rebuilding) for plan in played.plans]
    saved = played.saved(changed)
    if saved <= WORTH:
        return
    reused, every = (count / found.prompts for count in (int(found.drained.sum()), len(found.ids)))
    text = (
        f"{reused:.0f} of {every:.0f} ubatches of a prompt reuse the graph of the one before, "
        "and before each the host waits until every device is done"
    )
    finding = Finding("graph-reuse-drain", 0, None, text, "LLAMA_GRAPH_REUSE_DISABLE=1")
    yield _predicted(played, finding, saved)


def small_ubatches(played: Replay, facts: Mapping[str, Any]) -> Iterator[Finding]:
    """Ubatches that cost the host as much as larger ones; the gain is the least to expect.

    What a device takes for a token is left as it was: how much less in larger ubatches does not show.
    """
    size = facts.get("chunk_tokens")
    if type(size) is not int or not 0 < size < SMALL_UBATCH or len(played.found.ids) == played.found.prompts:
        return
    changed = [_merged(plan, UBATCH // size, _building_ns(played)) for plan in played.plans]
    text = (
        f"ubatches of {size} tokens cost the host as much as larger ones, and devices are at their best with "
        "more; the gain is the least to expect"
    )
    batch = facts.get("batch_tokens")
    flag = f"-ub {UBATCH}" + (f" -b {BATCH}" if type(batch) is int and batch < BATCH else "")
    yield _predicted(played, Finding("small-ubatch", 0, None, text, flag), played.saved(changed))


def _undrained(plan: Plan, copies: int, building_ns: float = 0.0) -> Plan:
    """The same without waiting for all devices, each graph that was reused being built instead."""
    before = plan.before_ns + np.where(plan.drained, building_ns, 0.0)
    return replace(plan, before_ns=before, drained=np.zeros_like(plan.drained), copies=copies)


def _merged(plan: Plan, group: int, building_ns: float) -> Plan:
    """The same work in ubatches of `group` times as many tokens, each with a graph of its own."""
    starts = np.arange(0, plan.busy_ns.shape[1], group)
    built = np.where(plan.drained, 0.0, building_ns)
    looked_up = np.add.reduceat(np.maximum(plan.before_ns - built, 0), starts)
    return Plan(
        busy_ns=np.add.reduceat(plan.busy_ns, starts, axis=1),
        before_ns=looked_up + building_ns,
        after_ns=np.full(len(starts), float(np.median(plan.after_ns))),
        drained=np.zeros(len(starts), dtype=np.bool_),
        copies=plan.copies,
    )


def _building_ns(played: Replay) -> float:
    """What the host takes to build a graph, as a median; 0 where it never did."""
    spans = played.found.spans
    built = played.found.total_ns(spans[spans["kind"] == "schedule"])
    return float(np.median(built[built > 0])) if bool((built > 0).any()) else 0.0


def _predicted(played: Replay, finding: Finding, saved: float) -> Finding:
    """With its size, and with the gain where it is more than what playing the recording gets wrong."""
    ns = max(round(saved * played.makespan_ns), 0)
    return replace(finding, ns=ns, predicted_gain=saved if saved > max(WORTH, played.error) else None)


def _idle_ns(played: Replay) -> int:
    """For how long of a prompt a device does not work, as a mean over the devices."""
    found = played.found
    busy_ns: float = float(found.busy_ns.sum()) / (len(found.busy_ns) * found.prompts)
    return round(played.makespan_ns - busy_ns)


def _flags(facts: Mapping[str, Any]) -> Mapping[str, Any]:
    flags = facts.get("llama_flags")
    return flags if isinstance(flags, Mapping) else {}


def _value(value: object) -> str:
    return f" {value}" if isinstance(value, str) and value and value != "true" else ""
