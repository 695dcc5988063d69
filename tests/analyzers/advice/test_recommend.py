"""The advice as a whole: on real recordings, and on pipelines that can be run again as advised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bubblescope.analyzers.advice.recommend import Prediction, predict
from bubblescope.analyzers.analysis import analyze
from bubblescope.analyzers.results import Options, Recommendation
from bubblescope.report.split import is_balanced
from bubblescope.trace.frames import SPANS, table
from bubblescope.trace.model import Clock, Trace
from bubblescope.trace.read import read_trace
from tests.analyzers.advice.recordings import (
    UNHINDERED,
    Chunk,
    Model,
    chunks,
    makespans_ns,
    played,
    recorded,
    requested,
)
from tests.pipelines.engine import Engine, Step
from tests.pipelines.execution import play
from tests.pipelines.recording import ORIGIN_NS

SAMPLES = Path(__file__).parents[3] / "sample_traces"


@pytest.mark.parametrize(
    ("sample", "words", "ratio"),
    [
        # Measured: time to first token 1034 to 1054 ms at 27,9 and 772 to 783 ms at 18,18.
        ("vllm_h200x2_27_9", "VLLM_PP_LAYER_PARTITION=18,18", 776 / 1042),
        # Measured: 2010 ms at 27,9 and 1565 to 1598 ms at 18,18.
        ("sglang_h200x2_27_9", "SGLANG_PP_LAYER_PARTITION=18,18", 1582 / 2010),
    ],
)
def test_foretells_what_was_measured_on_two_h200(sample: str, words: str, ratio: float) -> None:
    # GIVEN the recording of an engine with 27 and 9 layers
    advice = analyze(read_trace(SAMPLES / sample)).recommendation
    # THEN it foretells by what an even split shortens the prefill: measured afterwards, without a profiler
    assert advice.partition == (18, 18)
    assert advice.words == words
    assert advice.makespan_ns is not None and advice.predicted_makespan_ns is not None
    assert advice.predicted_makespan_ns / advice.makespan_ns == pytest.approx(ratio, rel=0.05)
    assert advice.error is not None and advice.error < 0.02
    # AND does not claim to know the time to first token, which is not recorded
    assert advice.ttft_ns is None and advice.predicted_ttft_ns is None


@pytest.mark.parametrize(
    ("before", "after", "split"),
    [
        pytest.param("27_9", "18_18", (18, 18), id="equal devices"),
        pytest.param("slowed_18_18", "slowed_22_14", (22, 14), id="stage 1 at half its strength"),
    ],
)
def test_the_engine_run_again_as_advised_takes_as_long_as_foretold(
    before: str, after: str, split: tuple[int, int]
) -> None:
    # GIVEN recordings with requests of vLLM on two H200, and of the same engine started as advised
    first, again = (
        analyze(read_trace(SAMPLES / "recorded" / f"vllm_h200x2_{name}.json.gz")).recommendation
        for name in (before, after)
    )
    # THEN prefill and time to first token are as foretold, and there is nothing more to be had
    assert first.partition == split
    assert first.predicted_makespan_ns == pytest.approx(again.makespan_ns, rel=0.03)
    assert first.predicted_ttft_ns == pytest.approx(again.ttft_ns, rel=0.03)
    assert again.partition is None and again.reason.startswith("balanced within error")


def test_without_layers_the_user_is_asked_for_them() -> None:
    trace = read_trace(SAMPLES / "h200x2_uneven")
    unknown = analyze(trace).recommendation
    assert unknown.partition is None and "--partition" in unknown.reason
    # WHEN they are named THEN 30 and 10 layers on equal cards are better as 20 and 20
    advice = analyze(trace, Options(partition=(30, 10))).recommendation
    assert advice.partition == (20, 20)
    # AND the 106 ms that stage 0 stood still, while the other rank was not there yet, are spoken of
    assert any("pauses" in remark for remark in advice.remarks)


def advised(
    model: Model, partition: Sequence[int], work: Sequence[Chunk], engine: Engine = UNHINDERED, **run: Any
) -> Recommendation:
    trace = recorded(played(model, partition, work, engine), partition, work, **run)
    return analyze(trace).recommendation


#: Messages that find room or wait for their receives; receives that are posted early or after the
#: computing; stages that go on before their output is taken, or only then; a slow host.
ENGINES = (
    UNHINDERED,
    replace(UNHINDERED, link=5000),
    Engine(link=3000),
    Engine(link=3000, holds=True),
    Engine(link=3000, host=(2000,) * 4, lockstep=True, buffers=9),
)


@pytest.mark.parametrize("seed", range(15))
def test_a_pipeline_run_again_as_advised_takes_as_long_as_foretold(seed: int) -> None:
    # GIVEN devices of two to four different speeds, a random split, prompts in chunks
    rng = np.random.default_rng(seed)
    stages = int(rng.integers(2, 5))
    cuts = np.sort(rng.choice(np.arange(1, 24), stages - 1, replace=False))
    split = tuple(np.diff(np.concatenate(([0], cuts, [24]))).tolist())
    model = Model(
        fixed=rng.uniform(0, 8000), token=rng.uniform(5, 30), pair=rng.uniform(0, 0.02),
        factors=tuple(rng.uniform(0.5, 2, stages).tolist()),
    )  # fmt: skip
    work = [
        *chunks(int(rng.integers(6000, 12000)), 1000),
        *chunks(int(rng.integers(3000, 9000)), 1000, at=10**9),
    ]
    engine = ENGINES[seed % len(ENGINES)]
    now = makespans_ns(played(model, split, work, engine), work)
    advice = advised(model, split, work, engine)
    # THEN the makespan is the recorded one, and the simulator finds it
    assert advice.makespan_ns == round(float(np.mean(now)))
    assert advice.error is not None and advice.error < 0.01
    best = advice.partition or split
    then = float(np.mean(makespans_ns(played(model, best, work, engine), work)))
    if advice.partition is not None:
        assert advice.predicted_makespan_ns == pytest.approx(then, rel=0.02)
    # AND no split serves a prompt sooner without a busier stage, or the reverse: the product is least
    assert then * busiest(model, best, work) <= 1.01 * min(
        float(np.mean(makespans_ns(played(model, other, work, engine), work))) * busiest(model, other, work)
        for other in neighbours(best)
    )


def busiest(model: Model, split: Sequence[int], work: Sequence[Chunk]) -> float:
    return max(held * sum(model.layer_ns(stage, chunk) for chunk in work) for stage, held in enumerate(split))


def neighbours(split: Sequence[int]) -> list[tuple[int, ...]]:
    """The split, and those with one layer moved from one stage to another."""
    found = [tuple(split)]
    for one, other in combinations(range(len(split)), 2):
        for step in (1, -1):
            moved = list(split)
            moved[one], moved[other] = moved[one] + step, moved[other] - step
            if min(moved) >= 1:
                found.append(tuple(moved))
    return found


def test_a_slower_device_gets_fewer_layers() -> None:
    # GIVEN a device that takes twice as long per layer
    advice = advised(Model(factors=(1, 2)), (12, 12), chunks(20_000, 1000))
    assert advice.partition == (16, 8)


def test_an_even_split_is_left_alone() -> None:
    advice = advised(Model(), (12, 12), chunks(20_000, 1000))
    assert advice.partition is None and advice.words is None
    assert advice.reason.startswith("balanced within error")
    assert advice.makespan_ns is not None and advice.predicted_makespan_ns is None


def test_what_saves_less_than_is_in_doubt_is_not_advised() -> None:
    # GIVEN layers that differ in time by 15 % from chunk to chunk, for no reason that is recorded
    rng = np.random.default_rng(0)
    work = [Chunk(1000, 0, number * 10**9) for number in range(20)]
    model = Model(fixed=0, pair=0)
    execution = played(model, (13, 11), work)
    noise = rng.uniform(0.85, 1.15, len(work))
    trace = recorded(execution, (13, 11), work)
    length = (trace.spans["end_ns"] - trace.spans["begin_ns"]) * (1 - noise[trace.spans["microbatch"]])
    late = (trace.spans["kind"] == "forward") & (trace.spans["stage"] == 1)
    spans = trace.spans.assign(end_ns=trace.spans["end_ns"] - np.where(late, length, 0).astype(np.int64))
    trace = replace(trace, spans=table(SPANS, {name: spans[name] for name in SPANS.columns}))
    advice = analyze(trace).recommendation
    assert advice.partition is None
    assert advice.reason.startswith("balanced within error")


def test_a_split_that_takes_longer_is_not_said_to_save() -> None:
    # GIVEN a recording whose best split, 18,18, lets more prompts follow each other, each taking longer
    advice = analyze(read_trace(SAMPLES / "recorded" / "llama_h200x2_17_19.json.gz")).recommendation
    assert advice.partition is None
    assert advice.reason == "balanced within error: no split is simulated to be faster"


def test_a_large_gain_that_one_prompt_leaves_in_doubt_is_no_balance() -> None:
    # GIVEN one prompt on two busy cores, of which 4,4 would save 23 %, or cost 13 %
    trace = read_trace(SAMPLES / "recorded" / "vllm_cpu_6_2_layers.json.gz")
    prompt = trace.requests.iloc[1]
    found = analyze(trace, Options(window_ns=(int(prompt["arrival_ns"]), int(prompt["end_ns"]))))
    advice = found.recommendation
    assert advice.partition is None and advice.uncertain
    assert advice.reason == "uncertain: 4,4 would save 22.8 % ± 35.8 %; a recording of more prompts may tell"
    assert not is_balanced(found)


def test_a_split_that_may_as_well_take_longer_is_not_advised() -> None:
    # GIVEN a recording by which 8,8 would save between -0.4 and 0.9 %
    advice = analyze(
        read_trace(SAMPLES / "recorded" / "torch_h200x2_12_4_spans_kernels.json.gz")
    ).recommendation
    assert advice.partition is None
    assert advice.reason == "balanced within error: 8,8 would save 0.9 % ± 1.3 %"


def test_microbatches_that_do_not_belong_together_are_no_prompts() -> None:
    # GIVEN 133 microbatches on the first stage and 142 on the last, which ended some before the first began
    advice = analyze(read_trace(SAMPLES / "recorded" / "torch_h200x2_clocks.json.gz")).recommendation
    assert advice.partition is None and advice.error is None
    assert advice.reason.startswith("a prompt ends on the last stage before it begins on the first")


def test_a_disturbed_prompt_is_left_out_and_spoken_of() -> None:
    # GIVEN four prompts; in the first, stage 0 stood still for a second before its third chunk
    work = [chunk for number in range(4) for chunk in chunks(8000, 1000, at=number * 10**10)]
    calm = advised(Model(), (18, 6), work)
    delayed = [replace(chunk, at=10**9) if number == 2 else chunk for number, chunk in enumerate(work)]
    advice = advised(Model(), (18, 6), delayed)
    assert advice.makespan_ns == calm.makespan_ns
    assert advice.predicted_makespan_ns == pytest.approx(calm.predicted_makespan_ns, rel=1e-3)
    assert any("1 of 4 prompts" in remark for remark in advice.remarks)
    assert not any("prompts" in remark for remark in calm.remarks)


def test_time_outside_the_devices_stays_as_it_was() -> None:
    # GIVEN two requests, each with 2 ms before its first compute and 3 ms after its last
    work = [*chunks(8000, 1000, at=2_000_000), *chunks(8000, 1000, at=1_002_000_000)]
    execution = played(Model(), (18, 6), work)
    makespan = makespans_ns(execution, work)[0]
    served = makespan + 5_000_000
    trace = requested(
        recorded(execution, (18, 6), work),
        [(0, served, False), (1_000_000_000, 1_000_000_000 + served, False)],
    )
    advice = analyze(trace).recommendation
    assert advice.ttft_ns == served
    assert advice.makespan_ns == makespan
    assert advice.predicted_ttft_ns is not None and advice.predicted_makespan_ns is not None
    assert advice.predicted_ttft_ns - advice.predicted_makespan_ns == pytest.approx(5_000_000, abs=2)


def test_requests_in_a_queue_are_served_sooner_as_well() -> None:
    # GIVEN three requests at once
    work = [chunk for _ in range(3) for chunk in chunks(8000, 1000)]
    execution = played(Model(), (18, 6), work)
    done = [
        max(each.end for each in execution.works if each.computes and each.launch.step == last)
        for last in (7, 15, 23)
    ]
    trace = requested(recorded(execution, (18, 6), work), [(0, end, False) for end in done])
    advice = analyze(trace).recommendation
    assert advice.partition is not None
    assert advice.ttft_ns == round(float(np.mean(done)))
    # WHEN it is run as advised THEN the mean of their ends is as foretold
    again = played(Model(), advice.partition, work)
    ends = [
        max(each.end for each in again.works if each.computes and each.launch.step == last)
        for last in (7, 15, 23)
    ]
    assert advice.predicted_ttft_ns == pytest.approx(float(np.mean(ends)), rel=0.02)


def unpipelined(trace: Trace) -> Trace:
    stage = trace.spans["stage"] == 0
    spans = trace.spans[stage & (trace.spans["kind"] == "forward")]
    devices = trace.run.devices[:1]
    return replace(
        trace,
        run=replace(trace.run, devices=devices, partition=None),
        spans=table(SPANS, {name: spans[name] for name in SPANS.columns}),
    )


def test_no_advice_says_why() -> None:
    work = chunks(8000, 1000)
    trace = recorded(played(Model(), (18, 6), work), (18, 6), work)

    def reason(changed: Trace, options: Options | None = None) -> str:
        advice = analyze(changed, options).recommendation
        assert advice.partition is None and advice.predicted_makespan_ns is None
        return advice.reason

    run = trace.run
    decode = trace.spans.assign(phase="decode", tokens=1, prefix=-1)
    assert "no pipeline" in reason(unpipelined(trace))
    assert "--partition" in reason(replace(trace, run=replace(run, partition=None)))
    assert "clocks" in reason(replace(trace, run=replace(run, clock=Clock(aligned=False))))
    assert "decode" in reason(
        replace(trace, spans=table(SPANS, {name: decode[name] for name in SPANS.columns}))
    )
    assert "no prompt" in reason(trace, Options(window_ns=(ORIGIN_NS, ORIGIN_NS + 10)))
    assert "512" in reason(replace(trace, run=replace(run, partition=(10**9, 6))))
    few = chunks(2000, 1000)
    assert "recorded: 2" in reason(recorded(played(Model(), (18, 6), few), (18, 6), few))


def test_an_engine_that_takes_one_chunk_after_the_other_gains_nothing() -> None:
    # GIVEN equal devices, and stage 0 waits for each chunk to leave the pipeline before the next
    work = chunks(8000, 1000)
    steps = [
        Step(
            tuple(round(held * Model().layer_ns(stage, chunk)) for stage, held in enumerate((18, 6))),
            phase="decode",
            samples=True,
        )
        for chunk in work
    ]
    trace = recorded(play(UNHINDERED.program(steps)), (18, 6), work)
    spans = trace.spans.assign(phase="prefill")
    trace = replace(trace, spans=table(SPANS, {name: spans[name] for name in SPANS.columns}))
    # THEN all layers are passed one after the other, wherever they are
    advice = analyze(trace).recommendation
    assert advice.error is not None and advice.error < 0.01
    assert advice.partition is None
    assert advice.reason.startswith("balanced within error")


@pytest.mark.parametrize("seed", range(12))
def test_damaged_spans_lead_to_sound_advice_or_to_none(seed: int) -> None:
    # GIVEN spans that end or begin far too late, that lack their prefix, are far too large, or are missing
    rng = np.random.default_rng(seed)
    work = [chunk for number in range(3) for chunk in chunks(6000, 1000, at=number * 10**8)]
    trace = recorded(played(Model(factors=(1, 2, 1)), (8, 4, 12), work), (8, 4, 12), work)
    spans = trace.spans.copy()
    hit = rng.random(len(spans)) < 0.1
    if seed % 5 == 0:
        spans.loc[hit, "end_ns"] += 10 ** int(rng.integers(3, 12))
    elif seed % 5 == 1:
        late = 10 ** int(rng.integers(3, 12))
        spans.loc[hit, "begin_ns"] += late
        spans.loc[hit, "end_ns"] += late
    elif seed % 5 == 2:
        spans.loc[hit, "prefix"] = -1
    elif seed % 5 == 3:
        spans.loc[hit, "tokens"] = 10**12
    else:
        spans = spans[~hit]
    trace = replace(trace, spans=table(SPANS, {name: spans[name] for name in SPANS.columns}))
    advice = analyze(trace).recommendation
    # THEN there is a reason, and any split holds all layers, at least one on each stage
    assert advice.reason
    if advice.partition is not None:
        assert sum(advice.partition) == 24 and min(advice.partition) >= 1
        assert advice.predicted_makespan_ns is not None and advice.predicted_makespan_ns > 0


def test_what_another_split_would_take_can_be_asked() -> None:
    analysis = analyze(read_trace(SAMPLES / "recorded" / "vllm_h200x2_27_9.json.gz"))
    advice = analysis.recommendation
    # THEN the advised split takes as long as the advice says, the recorded one as long as it took
    assert advice.partition is not None
    assert predict(analysis, advice.partition) == Prediction(
        advice.predicted_makespan_ns, advice.predicted_ttft_ns
    )
    assert predict(analysis, (27, 9)) == Prediction(advice.makespan_ns, advice.ttft_ns)
    # AND a layer more on the busier stage takes longer still
    assert predict(analysis, (28, 8)).makespan_ns > advice.makespan_ns
