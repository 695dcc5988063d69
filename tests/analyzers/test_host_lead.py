"""Whether a device may have waited for its own host within a forward, told by how far ahead that was."""

from __future__ import annotations

from collections.abc import Sequence

from bubblescope.analyzers.analysis import analyze
from bubblescope.trace.frames import SPANS, table
from bubblescope.trace.model import Device, Run, Trace

MS = 1_000_000
WHAT = "gaps between kernels"


def recording(leads_ms: Sequence[tuple[float, float]]) -> Trace:
    """Two stages that work on a microbatch for 100 ms each; of each its lead per stage, -1 if not told."""
    rows = [
        (stage, n, (n + stage) * 100 * MS, -1 if leads[stage] < 0 else round(leads[stage] * MS))
        for n, leads in enumerate(leads_ms)
        for stage in (0, 1)
    ]
    stage, microbatch, begin, lead = zip(*rows, strict=True)
    unknown = [-1] * len(rows)
    columns = {
        "stage": stage, "device": stage, "step": microbatch, "microbatch": microbatch,
        "kind": ["forward"] * len(rows), "phase": ["prefill"] * len(rows), "tokens": unknown,
        "prefix": unknown, "layer_begin": unknown, "layer_end": unknown, "peer": unknown, "bytes": unknown,
        "begin_ns": begin, "end_ns": [at + 100 * MS for at in begin],
        "clock": ["device"] * len(rows), "lead_ns": lead,
    }  # fmt: skip
    devices = tuple(Device(rank=number, stage=number, name="GPU") for number in (0, 1))
    return Trace(Run(devices=devices), spans=table(SPANS, columns))


def told(trace: Trace) -> list[str]:
    return [lost.why for lost in analyze(trace).lost if lost.what == WHAT]


def test_a_stage_whose_host_is_no_faster_than_its_device_may_hold_gaps() -> None:
    # 5 % of 100 ms are 5 ms: stage 0 is without a lead in two forwards of four, stage 1 in none.
    found = told(recording([(0.1, 60), (4.9, 60), (5.1, 60), (60, 60)]))
    assert len(found) == 1
    assert found[0].startswith("in 2 of 4 forwards of stage 0 the device was done as soon as the host had")


def test_a_few_forwards_without_a_lead_are_not_told() -> None:
    assert told(recording([(0, 60), (60, 60), (60, 60), (60, 60)])) == []


def test_nothing_is_told_where_no_lead_is() -> None:
    assert told(recording([(-1, -1)] * 4)) == []
