"""Which kernels are one microbatch, and what is known of it."""

from __future__ import annotations

import pandas as pd

from bubblescope.analyzers.analysis import analyze
from bubblescope.trace.model import Trace
from tests.analyzers.handmade import Slice, recv, send, trace_of

BIG, SMALL = 1 << 20, 1 << 12


def forwards(trace: Trace, stage: int) -> list[tuple[int, int, int]]:
    """Microbatch, begin and end of each forward span of a stage."""
    spans = analyze(trace).spans
    rows = spans[(spans["kind"] == "forward") & (spans["stage"] == stage)]
    return [tuple(row) for row in rows[["microbatch", "begin_ns", "end_ns"]].to_numpy().tolist()]


def handed_over(at: int, size: int = BIG, messages: int = 1, took: int = 4) -> list[Slice]:
    """Messages from stage 0 that stage 1 receives at once."""
    begins = range(at, at + took * messages, took)
    return [s for b in begins for s in (send(0, 1, b, b + took, size), recv(1, 0, b, b + took, size))]


def test_two_tensors_are_one_microbatch() -> None:
    # GIVEN chunks of 1000 ns, each handed over in two messages of 4 ns
    trace = trace_of(
        [
            Slice(0, 0, 1000), *handed_over(1000, messages=2), Slice(1, 1010, 1500),
            Slice(0, 1010, 2010), *handed_over(2010, messages=2), Slice(1, 2020, 2500),
        ]
    )  # fmt: skip
    assert forwards(trace, 0) == [(0, 0, 1000), (1, 1010, 2010)]
    assert forwards(trace, 1) == [(0, 1010, 1500), (1, 2020, 2500)]


def test_preparation_long_before_the_input_arrives_is_not_the_microbatch() -> None:
    # GIVEN that stage 1 prepares its second chunk at 1600 (5 ns) and waits until 2010 for its input
    trace = trace_of(
        [
            Slice(0, 0, 1000), *handed_over(1000), Slice(1, 1010, 1500), Slice(1, 1600, 1605),
            Slice(0, 1010, 2010), *handed_over(2010), Slice(1, 2020, 2500),
        ]
    )  # fmt: skip
    assert forwards(trace, 1) == [(0, 1010, 1500), (1, 2020, 2500)]


def test_a_receive_posted_under_compute_does_not_cut_the_microbatch() -> None:
    # GIVEN the second receive posted at 1100, in the middle of the first chunk on stage 1
    trace = trace_of(
        [
            Slice(0, 0, 1000), *handed_over(1000), Slice(1, 1010, 1300), Slice(1, 1300, 1800),
            Slice(0, 1010, 2010), send(0, 1, 2010, 2014), recv(1, 0, 1100, 2014), Slice(1, 2020, 2500),
        ]
    )  # fmt: skip
    assert forwards(trace, 1) == [(0, 1010, 1800), (1, 2020, 2500)]


def test_sampled_tokens_that_go_round_are_no_microbatch() -> None:
    around = [
        send(1, 0, 1500, 1504, 8),
        recv(0, 1, 1500, 1504, 8),
        send(0, 1, 1510, 1514, 8),
        recv(1, 0, 1510, 1514, 8),
    ]
    trace = trace_of([Slice(0, 0, 1000), *handed_over(1000), Slice(1, 1010, 1500), *around])
    assert forwards(trace, 0) == [(0, 0, 1000)]


def test_ranges_of_the_engine_name_phase_tokens_and_prefix() -> None:
    # GIVEN two chunks of 4096 and 1000 tokens, one decode step, and the first chunk of the next prompt
    names = ("context_1(4096)_generation_0(0)", "context_1(1000)_generation_0(0)",
             "context_0(0)_generation_1(1)", "context_1(4096)_generation_0(0)")  # fmt: skip
    slices: list[Slice] = []
    for number, (name, size) in enumerate(zip(names, (BIG, BIG // 4, SMALL, BIG), strict=True)):
        at = number * 2000
        slices += [Slice(0, at, at + 1000), *handed_over(at + 1000, size), Slice(1, at + 1010, at + 1500)]
        slices += [Slice(0, at, at + 1000, f"execute_{name}", category="device_range", lane="ranges")]
    spans = analyze(trace_of(slices)).spans
    told = spans[spans["kind"] == "forward"].drop_duplicates("microbatch")[["phase", "tokens", "prefix"]]
    assert told.astype(object).to_numpy().tolist() == [
        ["prefill", 4096, 0], ["prefill", 1000, 4096], ["decode", 1, -1], ["prefill", 4096, 0],
    ]  # fmt: skip


def test_without_ranges_small_messages_are_decode_steps() -> None:
    slices: list[Slice] = []
    for number, size in enumerate((BIG, BIG, SMALL)):
        at = number * 2000
        slices += [Slice(0, at, at + 1000), *handed_over(at + 1000, size), Slice(1, at + 1010, at + 1500)]
    analysis = analyze(trace_of(slices))
    spans: pd.DataFrame = analysis.spans
    assert any(lost.what == "phases" for lost in analysis.lost)
    phases = spans[spans["kind"] == "forward"].drop_duplicates("microbatch")["phase"].tolist()
    assert phases == ["prefill", "prefill", "decode"]


def test_a_stage_of_two_ranks_is_described_by_the_one_that_computes_most() -> None:
    # GIVEN tensor parallel 2 in each of two stages, with rank 0 and rank 3 computing most
    slices = [Slice(0, 0, 1000), Slice(1, 0, 990), Slice(2, 1010, 1490), Slice(3, 1010, 1500)]
    for source, target in ((0, 2), (1, 3)):
        slices += [send(source, target, 1000, 1004), recv(target, source, 1000, 1004)]
    trace = trace_of(slices, devices=4)
    assert [stage.devices for stage in analyze(trace).stages] == [(0, 1), (3, 2)]
    assert (forwards(trace, 0), forwards(trace, 1)) == ([(0, 0, 1000)], [(0, 1010, 1500)])
