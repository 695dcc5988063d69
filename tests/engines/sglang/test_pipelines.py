"""Real SGLang servers on CPUs, recorded by an unmodified command line: the traces tell the truth."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bubblescope.analyzers.analysis import analyze
from bubblescope.analyzers.results import WAITING_STATES, Analysis
from tests.engines.serving import Recorded, without_stall
from tests.engines.sglang.serving import VERSION, command, installed, prepare, record

pytestmark = installed

PROMPT, CHUNK, REQUESTS = 2000, 256, 2
#: Seven whole chunks and the rest.
CHUNKS = [256] * 7 + [208]
LOAD = ["--prompt-tokens", str(PROMPT), "--requests", str(REQUESTS), "--output-tokens", "2"]
#: Of a message that passes on one token's id.
TOKEN_BYTES = 8


def recorded(folder: Path, partition: str, *options: str, **more: str) -> Recorded:
    prepare(folder)
    stages = len(partition.split(","))
    server = command(folder, *options, stages=stages)
    return record(folder, LOAD, server, stages, SGLANG_PP_LAYER_PARTITION=partition, **more)


@pytest.fixture(scope="module")
def uneven(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return without_stall(lambda: recorded(tmp_path_factory.mktemp("uneven"), "6,2"))


@pytest.fixture(scope="module")
def even_without_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return recorded(tmp_path_factory.mktemp("even"), "4,4", "--skip-tokenizer-init")


@pytest.fixture(scope="module")
def four_stages(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return recorded(tmp_path_factory.mktemp("four"), "2,3,1,2", "--pp-async-batch-depth", "1")


SLEEPS_MS = {
    "schedule": ("sglang.srt.managers.schedule_batch:ScheduleBatch.prepare_for_extend", 40),
    "embed": ("sglang.srt.layers.quantization.unquant:UnquantizedEmbeddingMethod.embedding", 100),
    "forward": ("sglang.srt.models.qwen3:Qwen3DecoderLayer.forward", 5),
    "recv": ("sglang.srt.distributed.parallel_state:GroupCoordinator.recv_object", 20),
    "head": ("sglang.srt.layers.logits_processor:LogitsProcessor._get_logits", 25),
}


@pytest.fixture(scope="module")
def slowed(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    sleeps = ",".join(f"{target}={milliseconds}" for target, milliseconds in SLEEPS_MS.values())
    return recorded(tmp_path_factory.mktemp("slowed"), "4,4", TAMPER_SLEEPS=sleeps)


#: Layers per stage, and how many batches may be under way.
PIPELINES = {
    "uneven": ((6, 2), 2), "even_without_tokenizer": ((4, 4), 2), "four_stages": ((2, 3, 1, 2), 5)
}  # fmt: skip


@pytest.fixture(params=PIPELINES)
def pipeline(request: pytest.FixtureRequest) -> tuple[Recorded, tuple[int, ...], int]:
    found: Recorded = request.getfixturevalue(request.param)
    return found, *PIPELINES[request.param]


Pipeline = tuple[Recorded, tuple[int, ...], int]


def test_the_server_is_driven_and_ended_and_nothing_is_lost(pipeline: Pipeline) -> None:
    recording, partition, in_flight = pipeline
    assert recording.status == 0, recording.output
    run = recording.trace.run
    assert run.lost == ()
    assert (run.engine, run.engine_version, run.partition) == ("sglang", VERSION, partition)
    assert run.world_size == len(partition)
    assert [(device.rank, device.stage, device.name) for device in run.devices] == [
        (stage, stage, "CPU") for stage in range(len(partition))
    ]
    assert run.facts["chunk_tokens"] == CHUNK
    assert run.facts["batches_in_flight"] == in_flight
    assert run.facts["asynchronous_batch_depth"] == in_flight - len(partition)
    assert (run.facts["dynamic_chunking"], run.facts["attention_backend"]) == (False, "torch_native")
    assert (run.model["layers"], run.model["hidden_size"]) == (8, 512)


def test_every_rank_has_the_same_batches_with_the_same_tokens(pipeline: Pipeline) -> None:
    recording, partition, _ = pipeline
    spans = recording.trace.spans
    forward = spans[spans["kind"] == "forward"]
    for stage in range(len(partition)):
        own = forward[forward["stage"] == stage].sort_values("step")
        # A warm-up and the requests; the first of two output tokens comes from the prefill.
        assert own["step"].tolist() == list(range(1, 1 + (1 + REQUESTS) * (len(CHUNKS) + 1)))
        assert own["tokens"].tolist() == (1 + REQUESTS) * [*CHUNKS, 1]
        assert own["prefix"].tolist() == (1 + REQUESTS) * [*range(0, PROMPT, CHUNK), PROMPT]
        assert own["phase"].tolist() == (1 + REQUESTS) * [*len(CHUNKS) * ["prefill"], "decode"]
        begin = sum(partition[:stage])
        assert set(zip(own["layer_begin"], own["layer_end"], strict=True)) == {
            (begin, begin + partition[stage])
        }


def test_each_kind_of_work_is_on_the_stages_that_do_it(pipeline: Pipeline) -> None:
    recording, partition, _ = pipeline
    spans, last = recording.trace.spans, len(partition) - 1
    stages = spans.groupby("kind", observed=True)["stage"].agg(lambda stage: sorted(set(stage)))
    everywhere = list(range(last + 1))
    assert stages.to_dict() == {
        "schedule": everywhere, "forward": everywhere, "embed": [0], "head": [last], "sample": [last],
        "recv": everywhere, "send": everywhere,
    }  # fmt: skip


def test_each_batch_passes_activations_on_and_its_token_once_around(pipeline: Pipeline) -> None:
    recording, partition, _ = pipeline
    spans, last = recording.trace.spans, len(partition) - 1
    prefill = spans[(spans["phase"] == "prefill") & (spans["tokens"] == CHUNK)]
    # Hidden state and residual, in bfloat16.
    activations = CHUNK * 512 * 2 * 2
    forth = [(stage, stage + 1, activations) for stage in range(last)]
    around = [(stage, (stage + 1) % (last + 1), TOKEN_BYTES) for stage in range(last + 1)]
    sends = prefill[prefill["kind"] == "send"]
    for _, sent in sends.groupby("step"):
        assert sorted(zip(sent["stage"], sent["peer"], sent["bytes"], strict=True)) == sorted(forth + around)
    receives = prefill[prefill["kind"] == "recv"]
    ends = ["step", "peer", "stage", "bytes"]
    assert sorted(sends[["step", "stage", "peer", "bytes"]].values.tolist()) == sorted(
        receives[ends].values.tolist()
    )


def test_the_requests_are_those_of_the_client(pipeline: Pipeline) -> None:
    recording, _, _ = pipeline
    requests = recording.trace.requests
    assert requests["warmup"].tolist() == [True] + REQUESTS * [False]
    assert requests["prompt_tokens"].tolist() == (1 + REQUESTS) * [PROMPT]
    assert requests["output_tokens"].tolist() == (1 + REQUESTS) * [2]
    measured = requests[~requests["warmup"]]
    assert recording.trace.run.window_ns == (measured["arrival_ns"].min(), measured["end_ns"].max())


def test_loops_that_find_nothing_to_run_write_nothing(uneven: Recorded) -> None:
    spans = uneven.trace.spans
    batches = (1 + REQUESTS) * (len(CHUNKS) + 1)
    # Of each batch on the first stage: schedule, embed, forward, two sends, and a token received.
    assert len(spans[spans["stage"] == 0]) == 6 * batches
    # On the last: schedule, forward, head, sample, two receives, and a token sent.
    assert len(spans[spans["stage"] == 1]) == 7 * batches


def test_the_short_stage_of_an_uneven_split_waits_for_the_long_one_to_compute(uneven: Recorded) -> None:
    analysis = analyze(uneven.trace)
    window = analysis.window_ns[1] - analysis.window_ns[0]
    blame = _blame(analysis)
    assert blame[1, 0, "compute"] > 0.2 * window
    assert blame[1, 0, "compute"] == blame.xs(1, level="waiting_stage").max()


def test_the_advice_is_to_even_the_split_out_by_as_much_as_can_be_told(uneven: Recorded) -> None:
    advised = analyze(uneven.trace).recommendation
    # Where other programs disturb the measurement, it says so, and what it would have advised if anything.
    assert re.search(r"\b(4,4|5,3|3,5) would save|so it predicts nothing", advised.reason), advised.reason
    if advised.partition is not None:
        assert advised.words == "SGLANG_PP_LAYER_PARTITION=" + ",".join(map(str, advised.partition))


def test_what_is_slowed_down_is_what_gets_longer(slowed: Recorded) -> None:
    spans = slowed.trace.spans
    prefill = spans[(spans["phase"] == "prefill") & (spans["prefix"] > 0)]
    length_ms = (prefill["end_ns"] - prefill["begin_ns"]) / 1e6
    for kind, (_, milliseconds) in SLEEPS_MS.items():
        calls = 4 if kind == "forward" else 1  # one per layer
        assert length_ms[prefill["kind"] == kind].min() >= calls * milliseconds, kind
    assert length_ms[prefill["kind"] == "sample"].median() < 20


def test_a_stage_that_is_slow_to_schedule_loses_that_time_to_its_own_host(slowed: Recorded) -> None:
    analysis = analyze(slowed.trace)
    for stage in (0, 1):
        own = analysis.spans[(analysis.spans["stage"] == stage) & (analysis.spans["kind"] == "schedule")]
        states = analysis.timeline[analysis.timeline["device"] == stage]
        waited = {state: _overlap_ns(states[states["state"] == state], own) for state in WAITING_STATES}
        # Beside it a send may be pending that the other stage, which is as slow, has not taken yet.
        assert waited["starved"] < 0.1 * sum(waited.values())
        assert _blame(analysis)[stage, stage, "host"] >= waited["host"] > 0


def test_the_stage_that_does_not_embed_waits_for_the_one_that_is_slow_to_embed(slowed: Recorded) -> None:
    analysis = analyze(slowed.trace)
    # Of the 100 ms by which stage 0 is slower, 25 go to stage 1's head, and some to its messages.
    batches = REQUESTS * len(CHUNKS)
    assert _blame(analysis)[1, 0, "compute"] > batches * 30_000_000


def test_messages_that_are_slow_to_arrive_count_as_transfer(slowed: Recorded) -> None:
    analysis = analyze(slowed.trace)
    # Stage 1 is done long before stage 0 asks for its token, which then takes 20 ms to receive.
    batches = REQUESTS * len(CHUNKS)
    assert analysis.stages[0].states_ns["transfer"] > batches * 15_000_000


def _blame(analysis: Analysis) -> pd.Series:
    return analysis.blame.set_index(["waiting_stage", "culprit_stage", "cause"])["ns"]


def _overlap_ns(some: pd.DataFrame, others: pd.DataFrame) -> int:
    """How long a row of one table and a row of the other hold at once."""
    begin = np.maximum.outer(some["begin_ns"].to_numpy(), others["begin_ns"].to_numpy())
    end = np.minimum.outer(some["end_ns"].to_numpy(), others["end_ns"].to_numpy())
    return int(np.maximum(end - begin, 0).sum())
