"""Older versions of vLLM, really run on CPUs: the same hooks fit, and the trace tells the same things."""

from __future__ import annotations

import pytest

from bubblescope.analyzers.analysis import analyze
from tests.engines.serving import Recorded
from tests.engines.vllm.serving import OLDER, command, installed, prepare, record

pytestmark = installed

#: Two whole chunks and the rest, in a warm-up and a request.
PROMPT, CHUNKS = 600, [256, 256, 88]
LOAD = ["--prompt-tokens", str(PROMPT), "--requests", "1", "--output-tokens", "2"]


@pytest.fixture(scope="module", params=OLDER)
def older(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Recorded]:
    folder = tmp_path_factory.mktemp("older")
    prepare(folder)
    version: str = request.param
    recording = record(folder, LOAD, command(folder), version=version, VLLM_PP_LAYER_PARTITION="6,2")
    assert recording.status == 0, recording.output
    return version, recording


def test_every_stage_has_its_work_and_nothing_is_lost(older: tuple[str, Recorded]) -> None:
    version, recording = older
    trace = recording.trace
    assert (trace.run.engine_version, trace.run.partition, trace.run.lost) == (version, (6, 2), ())
    forward = trace.spans[trace.spans["kind"] == "forward"]
    steps = [forward[forward["stage"] == stage].sort_values("step") for stage in (0, 1)]
    assert steps[0]["step"].tolist() == steps[1]["step"].tolist()
    for own, layers in zip(steps, ((0, 6), (6, 8)), strict=True):
        assert own["tokens"].tolist() == 2 * [*CHUNKS, 1]
        assert own["phase"].tolist() == 2 * ["prefill", "prefill", "prefill", "decode"]
        assert set(zip(own["layer_begin"], own["layer_end"], strict=True)) == {layers}
    kinds = trace.spans.groupby("kind", observed=True)["stage"].agg(lambda stage: sorted(set(stage)))
    assert kinds.to_dict() == {
        "forward": [0, 1], "embed": [0], "head": [1], "sample": [1], "recv": [1], "send": [0],
        "schedule": [0],
    }  # fmt: skip


def test_the_short_stage_waits_for_the_long_one(older: tuple[str, Recorded]) -> None:
    analysis = analyze(older[1].trace)
    assert [stage.layers for stage in analysis.stages] == [6, 2]
    assert analysis.stages[1].states_ns["starved"] > analysis.stages[0].states_ns["starved"]
    waited = analysis.blame.set_index(["waiting_stage", "culprit_stage", "cause"])["ns"]
    assert waited.get((1, 0, "compute"), 0) > 0
    (request,) = analysis.requests
    assert request.ttft_ns == sum(request.breakdown_ns.values())
