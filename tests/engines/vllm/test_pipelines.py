"""Real vLLM servers on CPUs, recorded by an unmodified command line: the traces tell the truth."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pytest

from bubblescope.analyzers.analysis import analyze
from bubblescope.analyzers.results import Analysis
from tests.engines.serving import Recorded, without_stall
from tests.engines.vllm.serving import command, installed, prepare, record

pytestmark = installed

PROMPT, CHUNK, REQUESTS = 2000, 256, 2
#: Seven whole chunks and the rest.
CHUNKS = [256] * 7 + [208]
LOAD = ["--prompt-tokens", str(PROMPT), "--requests", str(REQUESTS), "--output-tokens", "2"]


LAYERS = ["--detail", "layers"]


def recorded(folder: Path, partition: str, *options: str, detail: Sequence[str] = ()) -> Recorded:
    prepare(folder)
    stages = len(partition.split(","))
    server = command(folder, *options, stages=stages)
    return record(folder, [*LOAD, *detail], server, stages, VLLM_PP_LAYER_PARTITION=partition)


@pytest.fixture(scope="module")
def uneven(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return without_stall(lambda: recorded(tmp_path_factory.mktemp("uneven"), "6,2", detail=LAYERS))


@pytest.fixture(scope="module")
def even(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return recorded(tmp_path_factory.mktemp("even"), "4,4")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return recorded(tmp_path_factory.mktemp("compiled"), "4,4", "-O1", detail=LAYERS)


@pytest.fixture(scope="module")
def four_stages(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return recorded(tmp_path_factory.mktemp("four"), "2,2,2,2")


PIPELINES = {"uneven": (6, 2), "even": (4, 4), "compiled": (4, 4), "four_stages": (2, 2, 2, 2)}


@pytest.fixture(params=PIPELINES)
def pipeline(request: pytest.FixtureRequest) -> tuple[Recorded, tuple[int, ...]]:
    found: Recorded = request.getfixturevalue(request.param)
    return found, PIPELINES[request.param]


def test_the_server_is_driven_and_ended_and_nothing_is_lost(
    pipeline: tuple[Recorded, tuple[int, ...]],
) -> None:
    recording, partition = pipeline
    assert recording.status == 0, recording.output
    run = recording.trace.run
    asked_for_layers_of_a_compiled_model = "detail_asked" in run.facts and run.facts["compilation"] != "none"
    assert [lost.what for lost in run.lost] == ["layers one by one"] * asked_for_layers_of_a_compiled_model
    assert (run.engine, run.engine_version, run.partition) == ("vllm", "0.32.0", partition)
    assert run.world_size == len(partition)
    assert [(device.rank, device.stage, device.name) for device in run.devices] == [
        (stage, stage, "CPU") for stage in range(len(partition))
    ]
    assert run.facts["chunk_tokens"] == CHUNK
    assert run.facts["batches_in_flight"] == len(partition)
    assert (run.model["layers"], run.model["hidden_size"]) == (8, 512)


def test_every_rank_has_the_same_steps_with_the_same_tokens(
    pipeline: tuple[Recorded, tuple[int, ...]],
) -> None:
    recording, partition = pipeline
    spans = recording.trace.spans
    forward = spans[spans["kind"] == "forward"]
    for stage in range(len(partition)):
        own = forward[forward["stage"] == stage].sort_values("step")
        prefill, decode = (own[own["phase"] == phase] for phase in ("prefill", "decode"))
        # A warm-up and the requests; the first of two output tokens comes from the prefill.
        assert prefill["tokens"].tolist() == (1 + REQUESTS) * CHUNKS
        assert prefill["prefix"].tolist() == (1 + REQUESTS) * list(range(0, PROMPT, CHUNK))
        assert decode["tokens"].tolist() == (1 + REQUESTS) * [1]
        assert own["step"].tolist() == forward[forward["stage"] == 0].sort_values("step")["step"].tolist()
        begin = sum(partition[:stage])
        assert set(zip(own["layer_begin"], own["layer_end"], strict=True)) == {
            (begin, begin + partition[stage])
        }


def test_each_kind_of_work_is_on_the_stages_that_do_it(pipeline: tuple[Recorded, tuple[int, ...]]) -> None:
    recording, partition = pipeline
    spans, last = recording.trace.spans, len(partition) - 1
    stages = spans.groupby("kind", observed=True)["stage"].agg(lambda stage: sorted(set(stage)))
    everywhere = list(range(last + 1))
    assert (stages["forward"], stages["schedule"]) == (everywhere, [0])
    assert (stages["recv"], stages["send"]) == (everywhere[1:], everywhere[:-1])
    assert (stages["head"], stages["sample"]) == ([last], [last])
    eager = recording.trace.run.facts["compilation"] == "none"
    assert stages.get("embed", []) == ([0] if eager else [])
    sent, received = (
        spans[spans["kind"] == kind].groupby("step")["bytes"].first() for kind in ("send", "recv")
    )
    assert (sent == received).all()
    # Hidden state and residual, in bfloat16.
    assert sent.iloc[0] == 256 * 512 * 2 * 2


def test_layers_are_told_one_by_one_and_of_a_compiled_model_their_attention(
    uneven: Recorded, compiled: Recorded
) -> None:
    for recording, kind, partition in ((uneven, "layer", (6, 2)), (compiled, "attention", (4, 4))):
        spans = recording.trace.spans
        forward, parts = spans[spans["kind"] == "forward"], spans[spans["kind"].isin(["layer", "attention"])]
        assert (recording.trace.run.facts["detail"], set(parts["kind"])) == (
            {"layer": "layers"}.get(kind, kind),
            {kind},
        )
        # Each forward has all layers of its stage, one after the other, and they lie within it.
        assert len(parts) == len(forward) / 2 * sum(partition)
        together = parts.merge(forward, on=["stage", "step"], suffixes=("", "_of_forward"))
        assert (together["begin_ns"] >= together["begin_ns_of_forward"]).all()
        assert (together["end_ns"] <= together["end_ns_of_forward"]).all()
        for _, own in parts.groupby(["stage", "step"]):
            own = own.sort_values("begin_ns")
            first = 0 if own["stage"].iloc[0] == 0 else partition[0]
            assert own["layer_begin"].tolist() == list(range(first, first + len(own)))
            assert (own["layer_end"] == own["layer_begin"] + 1).all()
            assert (own["begin_ns"].iloc[1:].to_numpy() >= own["end_ns"].iloc[:-1].to_numpy()).all()


def test_layers_make_most_of_the_forward_and_are_shown(uneven: Recorded) -> None:
    analysis = analyze(uneven.trace)
    assert analysis.layer_times["layer"].tolist() == list(range(8))
    assert set(analysis.layer_times["microbatches"]) == {REQUESTS * len(CHUNKS)}
    spans, (begin, end) = analysis.spans, analysis.window_ns
    inside = spans[(spans["phase"] != "decode") & (spans["begin_ns"] >= begin) & (spans["end_ns"] <= end)]
    forward = inside[inside["kind"] == "forward"]
    share = analysis.layer_times["ns"].sum() / (forward["end_ns"] - forward["begin_ns"]).sum()
    assert 0.8 < share <= 1


def test_the_requests_are_those_of_the_client(pipeline: tuple[Recorded, tuple[int, ...]]) -> None:
    recording, _ = pipeline
    requests = recording.trace.requests
    assert requests["warmup"].tolist() == [True] + REQUESTS * [False]
    assert requests["prompt_tokens"].tolist() == (1 + REQUESTS) * [PROMPT]
    assert requests["output_tokens"].tolist() == (1 + REQUESTS) * [2]
    measured = requests[~requests["warmup"]]
    assert recording.trace.run.window_ns == (measured["arrival_ns"].min(), measured["end_ns"].max())
    ttfts = ((measured["first_token_ns"] - measured["arrival_ns"]) / 1e6).tolist()
    told = [line for line in recording.said() if line.startswith("request ")]
    assert [float(line.split(" after ")[1].split(" ms")[0]) for line in told] == pytest.approx(ttfts, abs=0.1)


def test_the_short_stage_of_an_uneven_split_waits_for_the_long_one_to_compute(uneven: Recorded) -> None:
    analysis = analyze(uneven.trace)
    window = analysis.window_ns[1] - analysis.window_ns[0]
    blame = _blame(analysis)
    assert blame[1, 0, "compute"] > 0.2 * window
    assert blame[1, 0, "compute"] == blame.xs(1, level="waiting_stage").max()
    assert analysis.stages[1].states_ns["starved"] > 3 * analysis.stages[0].states_ns["starved"]


def test_the_advice_is_to_even_the_split_out_by_as_much_as_can_be_told(uneven: Recorded) -> None:
    advised = analyze(uneven.trace).recommendation
    # Where other programs disturb the measurement, it says so, and what it would have advised if anything.
    assert re.search(r"\b(4,4|5,3|3,5) would save|so it predicts nothing", advised.reason), advised.reason
    if advised.partition is not None:
        assert advised.words == "VLLM_PP_LAYER_PARTITION=" + ",".join(map(str, advised.partition))


def _blame(analysis: Analysis) -> pd.Series:
    return analysis.blame.set_index(["waiting_stage", "culprit_stage", "cause"])["ns"]
