"""Which of two devices sends, where only NCCL's kernels were recorded: told by when each works."""

from __future__ import annotations

from pathlib import Path

import pytest

from bubblescope.analyzers.analysis import analyze
from bubblescope.analyzers.operations import operations
from bubblescope.analyzers.results import Options
from bubblescope.trace.read import read_trace
from tests.analyzers.handmade import Slice, trace_of

RECORDED = Path(__file__).parents[2] / "sample_traces" / "recorded"
MS = 1_000_000


def message(device: int, begin: int, end: int) -> Slice:
    return Slice(device, begin * MS, end * MS, "ncclDevKernel_SendRecv", "unknown", lane="nccl")


def work(device: int, begin: int, end: int) -> Slice:
    return Slice(device, begin * MS, end * MS)


def prompts(sender: int) -> list[Slice]:
    """Two prompts of two microbatches, far apart: the sender works before each message, the other after."""
    receiver, found = 1 - sender, []
    for begin in (0, 200):
        for at in (begin, begin + 11):
            found += [work(sender, at, at + 10), message(sender, at + 10, at + 11)]
            found += [message(receiver, at, at + 11), work(receiver, at + 11, at + 15)]
    return found


@pytest.mark.parametrize("sender", [0, 1])
def test_who_works_before_the_messages_sends_them(sender: int) -> None:
    found = operations(trace_of(prompts(sender)))
    named = found.frame[["device", "kind", "source", "target"]].drop_duplicates().to_numpy().tolist()
    assert sorted(named) == sorted(
        [[sender, "send", sender, 1 - sender], [1 - sender, "recv", sender, 1 - sender]]
    )
    assert (found.frame["pair"] >= 0).all()
    (lost,) = found.lost
    assert lost.count == 8
    assert lost.why == (
        f"NCCL's kernels do not tell them; all are taken to go from device {sender}, which works before, to "
        f"device {1 - sender}, which works after them"
    )


def test_where_nothing_tells_them_apart_they_stay_unnamed() -> None:
    # GIVEN both devices working right before and right after each message
    slices = [
        s for d in (0, 1) for at in (0, 11, 22) for s in (work(d, at, at + 10), message(d, at + 10, at + 11))
    ]
    found = operations(trace_of([*slices, work(0, 33, 43), work(1, 33, 43)]))
    assert set(found.frame["kind"]) == {"collective"}
    assert [lost.why for lost in found.lost] == ["NCCL's kernels do not tell senders from receivers"]


def test_between_more_than_two_devices_they_stay_unnamed() -> None:
    found = operations(trace_of([message(device, 0, 1) for device in range(3)], devices=3))
    assert set(found.frame["kind"]) == {"collective"}
    assert "more than two devices" in found.lost[0].why


def test_a_program_without_a_collector_is_seen_as_the_pipeline_that_it_is() -> None:
    # GIVEN the same program recorded with spans of its own, and without
    plain = analyze(read_trace(RECORDED / "torch_h200x2_12_4_kernels.json.gz"), Options(partition=(12, 4)))
    told = analyze(read_trace(RECORDED / "torch_h200x2_12_4_spans_kernels.json.gz"))
    assert (
        [stage.devices for stage in plain.stages] == [stage.devices for stage in told.stages] == [(0,), (1,)]
    )
    # THEN both see the 24 microbatches, and stage 0 three times as long at work as stage 1
    for found in (plain, told):
        forward = found.spans[found.spans["kind"] == "forward"]
        assert forward.groupby("stage").size().tolist() == [24, 24]
        ratio = found.stages[0].states_ns["compute"] / found.stages[1].states_ns["compute"]
        assert 2.8 < ratio < 3.2
    assert plain.recommendation.partition == (8, 8)


def test_every_kernel_of_a_span_is_joined_to_it() -> None:
    # GIVEN 12 and 4 times a product and GELU, and a graph of 10 nodes, in each of 24 microbatches
    trace = read_trace(RECORDED / "torch_h200x2_12_4_spans_kernels.json.gz")
    rows = trace.slices.assign(device=trace.tracks["device"].to_numpy()[trace.slices["track"].to_numpy()])
    kernels = rows[(rows["category"] == "kernel") & (rows["span"] == "forward")]
    per_microbatch = kernels.groupby(["device", "microbatch"]).size()
    assert set(per_microbatch.loc[0]) == {12 * 2 + 10}
    assert set(per_microbatch.loc[1]) == {4 * 2 + 10}
    graphs = rows[rows["category"] == "device_range"]
    assert (len(graphs), set(graphs["span"])) == (48, {"forward"})
