"""llama.cpp's schedule, played by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bubblescope.analyzers.findings.replay import Plan


def plan(
    count: int, before: float = 0, after: float = 0, copies: int = 4, drained: Sequence[int] = ()
) -> Plan:
    """Two stages that take 10 for each ubatch."""
    return Plan(
        busy_ns=np.full((2, count), 10.0),
        before_ns=np.full(count, float(before)),
        after_ns=np.full(count, float(after)),
        drained=np.isin(np.arange(count), drained),
        copies=copies,
    )


def test_stages_work_at_the_same_time() -> None:
    # stage 0: 0-10, 10-20, 20-30; stage 1: 10-20, 20-30, 30-40
    assert plan(3).makespan_ns() == 40


def test_the_host_s_work_counts_where_devices_wait_for_it() -> None:
    # Inputs are there at 5, 10, 15: stage 0 runs 5-35, stage 1 until 45.
    assert plan(3, before=5).makespan_ns() == 45
    # At 12, 24, 36: stage 0 ends at 46, stage 1 at 56.
    assert plan(3, before=12).makespan_ns() == 56
    # What is done after the first device began holds up the next ubatch: 2, then 2 + 12 + 2, then 30.
    assert plan(3, before=2, after=12).makespan_ns() == 50


def test_with_one_copy_of_the_inputs_the_host_stays_with_the_activations() -> None:
    # Stage 1 is given its inputs when stage 0 is done, at 15; then ubatch 1 is begun: stage 0 runs it from 20
    # to 30, stage 1 to 40; then ubatch 2: from 35 to 45, and to 55.
    assert plan(3, before=5, copies=1).makespan_ns() == 55
    assert plan(3, before=5, copies=4).makespan_ns() == 45


def test_a_reused_graph_waits_until_all_devices_are_done() -> None:
    # Ubatch 0 is done at 25; ubatch 1 is begun then: inputs at 30, done at 50.
    assert plan(2, before=5, drained=[1]).makespan_ns() == 50
