"""The one sentence that a person remembers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bubblescope.analyzers.analysis import analyze
from bubblescope.analyzers.results import CULPRITS, Analysis, Recommendation
from bubblescope.report.verdict import verdict
from bubblescope.trace.frames import SPANS, table
from bubblescope.trace.model import Clock, Device, Run
from bubblescope.trace.read import read_trace
from tests.analyzers.prompts_saved import SAVED, copied, served
from tests.analyzers.spans import Span
from tests.report.analyses import BEGIN_NS, MS, analysis, without_devices_work

H200 = Device(rank=0, name="NVIDIA H200")


def test_names_the_stage_that_waits_for_whom_how_long_and_why() -> None:
    uneven = analysis(
        [[("compute", 100)], [("starved", 58), ("compute", 42)]],
        blame=[(1, 0, "compute", 58)],
        layers=[27, 9],
    )
    found = verdict(uneven)
    assert found.tone == "bad"
    assert found.text == (
        "Stage 1 (NVIDIA H200, 9 layers) waits 58 % of the time for stage 0, which computes 27 layers: "
        "the split is uneven."
    )


def test_shares_are_of_the_time_in_which_a_request_was_open() -> None:
    # 58 of 100 ms, and 900 ms in which nobody asked for anything.
    mostly_idle = analysis(
        [[("compute", 100), ("idle", 900)], [("starved", 58), ("compute", 42), ("idle", 900)]],
        blame=[(1, 0, "compute", 58)],
    )
    assert "58 % of the time" in verdict(mostly_idle).text


def test_without_layers_it_compares_the_compute() -> None:
    uneven = analysis([[("compute", 100)], [("starved", 60), ("compute", 40)]], blame=[(1, 0, "compute", 60)])
    assert "stage 0, which computes 2.5 times as long: the split is uneven" in verdict(uneven).text


def test_a_slower_device_with_no_more_layers_is_called_slower() -> None:
    mixed = analysis(
        [[("compute", 100)], [("starved", 50), ("compute", 50)]],
        blame=[(1, 0, "compute", 50)],
        layers=[18, 18],
        devices=[Device(rank=0, name="RTX 4090"), Device(rank=1, name="RTX PRO 6000")],
    )
    assert "Stage 1 (RTX PRO 6000, 18 layers) waits" in verdict(mixed).text
    assert "takes 2.0 times as long for its 18 layers: it is slower" in verdict(mixed).text


def test_even_stages_that_take_turns_are_not_called_uneven() -> None:
    serial = analysis(
        [[("compute", 50), ("starved", 50)], [("starved", 50), ("compute", 50)]],
        blame=[(1, 0, "compute", 50), (0, 1, "compute", 40)],
    )
    text = verdict(serial).text
    assert "they take turns instead of overlapping" in text
    assert "uneven" not in text


def test_a_bottleneck_that_holds_up_many_is_named_once_with_all_that_wait() -> None:
    # Stage 1 computes all the time; 0 is blocked and 2 and 3 starve because of it.
    three = analysis(
        [
            [("compute", 40), ("blocked", 60)],
            [("compute", 100)],
            [("starved", 70), ("compute", 30)],
            [("starved", 50), ("compute", 50)],
        ],
        blame=[(0, 1, "compute", 60), (2, 1, "compute", 70), (3, 1, "compute", 50)],
        layers=[8, 20, 6, 8],
    )
    assert verdict(three).text == (
        "Stage 2 (NVIDIA H200, 6 layers) waits 70 % of the time for stage 1, which computes 20 layers: "
        "the split is uneven. Stages 0 and 3 wait for it as well, 50 % to 60 %."
    )


def _two(cause: str, culprit: int = 0) -> str:
    waiting = analysis(
        [[("compute", 100)], [("starved", 60), ("compute", 40)]], blame=[(1, culprit, cause, 60)]
    )
    return verdict(waiting).text


def test_each_cause_has_its_own_words() -> None:
    assert "the link is slow" in _two("transfer")
    assert "whose host launches its work too late" in _two("host")
    assert "for the tokens that stage 0 samples" in _two("token")
    assert "cannot be resolved" in _two("follow_on")
    assert "does not show what held that stage up" in _two("unknown")
    assert "the recording does not tell for whom" in _two("unknown", culprit=-1)
    assert "slowest of their tensor-parallel group" in _two("tp_skew", culprit=1)
    assert "its own host has not launched anything" in _two("host", culprit=1)


UNASKED = Recommendation(None, "no advice was asked for")


def _token_wait(phase: str, advice: Recommendation = UNASKED) -> Analysis:
    """Stage 0 computes 60 of 100 ms and waits 40 for tokens; stage 1 computes 95, steps of one phase."""
    built = analysis(
        [[("compute", 60), ("starved", 40)], [("starved", 5), ("compute", 95)]],
        blame=[(0, 1, "token", 40)],
        layers=(18, 18),
    )
    steps: dict[str, list[Any]] = {name: [0, 0] for name in SPANS.columns}
    steps |= {
        "stage": [1, 1],
        "kind": ["forward", "forward"],
        "phase": [phase, "decode"],
        "begin_ns": [BEGIN_NS + 50 * MS, BEGIN_NS + 100 * MS],
        "end_ns": [BEGIN_NS + 99 * MS, BEGIN_NS + 101 * MS],
        "clock": ["device", "device"],
    }
    waited: dict[str, list[Any]] = {
        "waiting_stage": [0],
        "culprit_stage": [1],
        "cause": ["token"],
        "begin_ns": [BEGIN_NS + 60 * MS],
        "end_ns": [BEGIN_NS + 100 * MS],
    }
    return replace(built, spans=table(SPANS, steps), culprits=table(CULPRITS, waited), recommendation=advice)


def test_too_few_batches_are_blamed_only_for_tokens_of_decode() -> None:
    assert "too few batches are in flight" in verdict(_token_wait("decode")).text
    for phase in ("prefill", "mixed"):
        text = verdict(_token_wait(phase)).text
        assert "too few batches" not in text
        assert "stage 1 still computes the end of a prompt, and no other prompt follows" in text
    assert verdict(_token_wait("unknown")).text.endswith("for the tokens that stage 1 samples.")


def test_the_verdict_says_what_an_advised_split_cures() -> None:
    advised = Recommendation((22, 14), "22,14 would save 15 %", error=0.01)
    assert verdict(_token_wait("prefill", advice=advised)).text == (
        "Stage 1 (NVIDIA H200, 18 layers) computes longest, 95 % of the time, and the other waits for it: "
        "give it fewer layers."
    )


def test_what_an_advised_split_does_not_cure_comes_first() -> None:
    slow_host = analysis(
        [[("compute", 40), ("host", 60)], [("compute", 20), ("starved", 80)]],
        blame=[(0, 0, "host", 60), (1, 0, "host", 80)],
        layers=[27, 9],
        recommendation=Recommendation((18, 18), "18,18 would save 20 %", error=0.01),
    )
    text = verdict(slow_host).text
    assert text.index("host") < text.index("Stage 0 (NVIDIA H200, 27 layers) computes longest")


@pytest.mark.parametrize("waiting", [40, 4])
def test_what_an_advised_split_cures_comes_before_filling_and_draining(waiting: int) -> None:
    """Also where that is the larger loss, and where the waiting alone is not worth naming."""
    both = analysis(
        [
            [("compute", 80), ("drain", 20)],
            [("fill", 30), ("starved", waiting), ("compute", 70 - waiting)],
        ],
        blame=[(1, 0, "compute", waiting)],
        layers=[20, 16],
        recommendation=Recommendation((18, 18), "18,18 would save 5 %", error=0.01),
    )
    text = verdict(both).text
    split = "the split is uneven" if waiting == 40 else "Stage 0 (NVIDIA H200, 20 layers) computes longest"
    assert text.index(split) < text.index("fills and drains")


def test_an_advised_split_is_never_contradicted_by_a_good_verdict() -> None:
    even = analysis(
        [[("compute", 100)], [("starved", 4), ("compute", 96)]],
        blame=[(1, 0, "compute", 4)],
        layers=[19, 17],
        recommendation=Recommendation((18, 18), "18,18 would save 3 %", error=0.01),
    )
    assert verdict(even).tone == "bad"
    assert "give it fewer layers" in verdict(even).text


@pytest.mark.parametrize(("error", "said"), [(0.01, True), (0.5, False), (None, False)])
def test_a_split_is_called_balanced_where_it_was_simulated_well(error: float | None, said: bool) -> None:
    balanced = Recommendation(None, "no split is simulated to be faster", error=error)
    text = verdict(_token_wait("prefill", advice=balanced)).text
    assert text.startswith("The split is balanced within error. Stage 0") is said


def test_sglang_goes_on_before_answers_have_come_back_only_if_it_is_told_to() -> None:
    waiting = _token_wait("prefill")
    facts = {"asynchronous_batch_depth": 0}
    run = replace(waiting.trace.run, engine="sglang", facts=facts)
    told = verdict(replace(waiting, trace=replace(waiting.trace, run=run))).text
    assert "for the tokens that stage 1 samples: SGLang goes on only once" in told
    assert "--pp-async-batch-depth" in told


def test_the_largest_loss_wins_over_others() -> None:
    both = analysis(
        [[("compute", 100)], [("starved", 20), ("host", 30), ("compute", 50)]],
        blame=[(1, 0, "compute", 20), (1, 1, "host", 30)],
    )
    assert "its own host" in verdict(both).text


def test_filling_and_draining_can_cost_most() -> None:
    short = analysis(
        [[("compute", 50), ("drain", 50)], [("fill", 50), ("starved", 10), ("compute", 40)]],
        blame=[(1, 0, "compute", 10)],
    )
    assert verdict(short).text == (
        "Stage 0 (NVIDIA H200) has no work 50 % of the time because the pipeline fills and drains: "
        "more and smaller chunks per prompt keep it full for longer (--max-num-batched-tokens)."
    )


def test_a_late_begin_is_not_blamed_on_the_number_of_chunks() -> None:
    # Filling and draining an even pipeline would take 5 %; here it is 30 % of both stages.
    late = analysis(
        [[("compute", 100)], [("fill", 60), ("compute", 40)]],
        ideal_bubble_ratio=0.05,
    )
    assert "60 % of the time before its first or after its last microbatch" in verdict(late).text
    assert "explain 5.0 %" in verdict(late).text
    assert "chunks" not in verdict(late).text


def test_two_losses_of_like_size_are_both_named_the_larger_first() -> None:
    # 50 ms of filling and draining, 40 ms of waiting.
    both = analysis(
        [[("compute", 80), ("drain", 20)], [("fill", 30), ("starved", 40), ("compute", 30)]],
        blame=[(1, 0, "compute", 40)],
    )
    ends, waiting = verdict(both).text.index("fills and drains"), verdict(both).text.index("split is uneven")
    assert ends < waiting


def test_the_link_can_cost_most() -> None:
    slow = analysis([[("compute", 100)], [("transfer", 40), ("compute", 60)]])
    assert "only moves data 40 % of the time, and computes nothing" in verdict(slow).text


def test_says_balanced_when_nothing_is_worth_naming() -> None:
    even = analysis(
        [[("compute", 97), ("drain", 3)], [("fill", 3), ("starved", 4), ("compute", 93)]],
        blame=[(1, 0, "compute", 4)],
    )
    assert verdict(even).tone == "good"
    assert verdict(even).text.startswith("Balanced: no stage loses more than 5.0 % of its time")


def test_decode_is_not_judged_as_prefill() -> None:
    waiting = analysis([[("compute", 100)], [("starved", 60), ("compute", 40)]], blame=[(1, 0, "token", 60)])
    forward = {name: [0] for name in SPANS.columns} | {
        "kind": ["forward"],
        "phase": ["decode"],
        "clock": ["host"],
    }
    found = verdict(replace(waiting, spans=table(SPANS, forward)))
    assert found.tone == "none"
    assert found.text.startswith("Only decode steps here, no prefill to judge.")


def test_without_device_activity_it_says_nothing_about_bubbles() -> None:
    found = verdict(without_devices_work([H200]))
    assert found.tone == "none"
    assert found.text.startswith("No device activity in this recording")


def test_a_recording_without_any_device_has_no_activity_either() -> None:
    assert verdict(analysis([])).text.startswith("No device activity")


def test_of_llama_cpp_on_the_cpu_alone_no_profiler_is_spoken_of() -> None:
    run = Run(engine="llama.cpp", facts={"llama_layer_devices": ["CPU"] * 8})
    assert verdict(analysis([], run=run)).text.endswith(
        ": llama.cpp computed on the CPU alone, which is no stage; -ngl gives layers to devices."
    )


def _no_pipeline(run: Run) -> Analysis:
    built = analysis([[("compute", 60), ("starved", 40)], [("compute", 70), ("starved", 30)]], run=run)
    return replace(built, pipeline=False, stages=(), bubble_ratio=None)


def test_no_pipeline_is_said_and_nothing_invented() -> None:
    found = verdict(_no_pipeline(Run()))
    assert found.text == "No pipeline in this recording: 2 devices, computing 60 % to 70 % of the time."


def test_missing_ranks_are_counted() -> None:
    found = verdict(_no_pipeline(Run(world_size=8)))
    assert found.text.startswith(
        "Too few ranks in this recording to see a pipeline (2 of 8 ranks): 2 devices"
    )


def test_one_stage_alone_cannot_tell_for_whom_it_waits() -> None:
    alone = analysis(
        [[("compute", 40), ("starved", 60)]], blame=[(0, -1, "unknown", 60)], run=Run(world_size=2)
    )
    assert verdict(alone).text.startswith("Only stage 0 (NVIDIA H200) is in this recording (1 of 2 ranks)")


def test_clocks_that_do_not_agree_blame_nobody() -> None:
    torn = analysis(
        [[("compute", 100)], [("starved", 60), ("compute", 40)]],
        blame=[(1, 0, "compute", 60)],
        run=Run(clock=Clock(aligned=False, how="two bases")),
    )
    assert verdict(torn).text.startswith("The clocks of the stages could not be aligned")


def test_without_communication_the_host_is_not_accused() -> None:
    mute = analysis(
        [[("compute", 60), ("host", 40)], [("fill", 20), ("compute", 50), ("host", 30)]],
        blame=[(0, 0, "host", 40), (1, 1, "host", 30)],
    )
    found = verdict(mute)
    assert found.tone == "none"
    assert found.text.startswith("No communication in this recording")
    assert "they compute 50 % to 60 % of the time" in found.text


def test_a_window_in_which_no_request_was_open() -> None:
    assert verdict(analysis([[("idle", 10)], [("idle", 10)]])).text.startswith("Every stage is idle")


#: A message, without which waiting for others could not be told from the hosts' own time.
SENT = [Span(kind, stage, 80 * MS, 81 * MS, 1, peer=1 - stage) for stage, kind in enumerate(("send", "recv"))]


def test_saving_kv_caches_is_named_with_its_flag_and_its_price() -> None:
    # GIVEN 40 and 20 ms of saving before prompts of 30 ms each
    told = verdict(analyze(served([*SAVED, *SENT]))).text
    assert told.startswith(
        "Before a prompt the server saves the last KV cache to host memory (3.0 GB, 30.0 ms a prompt, not in "
        "its own timing); none was used again, but without it one that comes again is "
        "computed anew: --cache-ram 0, 50 % of a prompt's prefill to gain. "
    )
    # THEN these 60 of 151 ms are said to be the host's as well
    assert "could work, but 40 % of the time its own host saves or restores KV caches" in told


def test_a_flag_that_helps_is_named_without_a_pipeline_too() -> None:
    # GIVEN llama-server on one card, which saves KV caches for half of the time
    sample = Path(__file__).parents[2] / "sample_traces" / "recorded" / "llama_server_h200_cache.json.gz"
    found = verdict(analyze(read_trace(sample)))
    assert found.tone == "bad"
    assert ": --cache-ram 0, 54 % of a prompt's prefill to gain. No pipeline in this recording" in found.text


def test_a_host_that_saves_for_less_than_half_of_its_time_is_called_slow() -> None:
    # GIVEN a second prompt that is begun 40 ms after the first, of which 15 are spent on saving
    told = verdict(analyze(served([copied("save", 100, 115, 2_000_000_000), *SENT]))).text
    assert "its own host has not launched anything: what it does there" in told
    assert "most of that" not in told
