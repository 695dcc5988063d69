"""A device that waits for launches is told of, with its size, and only where it is worth telling."""

from __future__ import annotations

from dataclasses import replace

from bubblescope.analyzers.analysis import analyze
from bubblescope.analyzers.results import Finding
from bubblescope.trace.model import Trace
from tests.analyzers.handmade import Slice, recv, send
from tests.analyzers.test_kernels import forward, recording


def with_gap(ns: int) -> Trace:
    """Two stages that compute for 1000 each; stage 1 has a hole of `ns` between its two kernels."""
    return recording(
        [
            Slice(0, 0, 1000), send(0, 1, 1000, 1010), recv(1, 0, 0, 1010),
            Slice(1, 1010, 1510), Slice(1, 1510 + ns, 2010 + ns),
        ],
        forward(0, 0, 0, 1000), forward(1, 0, 1010, 2010 + ns),
    )  # fmt: skip


def test_what_a_slow_host_costs_is_said_of_its_stage() -> None:
    (finding,) = analyze(with_gap(250)).findings
    assert finding == Finding(
        "launch-bound", 250, 1,
        "between kernels of one microbatch stage 1 has nothing to run for 20 % of the time that it works on "
        "them: its own process launches them too slowly",
    )  # fmt: skip


def test_the_flag_that_cures_it_is_named_where_it_was_given() -> None:
    trace = with_gap(250)
    run = replace(trace.run, command=("vllm", "serve", "m", "--enforce-eager"))
    (finding,) = analyze(replace(trace, run=run)).findings
    assert finding.flag == "leave --enforce-eager out"


def test_small_gaps_are_not_shouted_about() -> None:
    assert analyze(with_gap(50)).findings == ()  # 50 of 1050 are 4.8 %
