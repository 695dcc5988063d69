"""What was recorded inside servers on H200 says who waited, and what would help; it helped."""

from __future__ import annotations

from pathlib import Path

import pytest

from bubblescope.analyzers.analysis import analyze
from bubblescope.analyzers.results import Analysis
from bubblescope.trace.read import read_trace

SAMPLES = Path(__file__).parents[2] / "sample_traces" / "recorded"
#: A recording, the split it advises, and the recording of that.
FOLLOWED = [
    ("vllm_h200x2_27_9", (18, 18), "vllm_h200x2_18_18"),
    ("vllm_h200x2_slowed_18_18", (22, 14), "vllm_h200x2_slowed_22_14"),
    ("sglang_h200x2_27_9", (18, 18), "sglang_h200x2_18_18"),
]
UNEVEN = ["vllm_h200x2_27_9", "sglang_h200x2_27_9"]


def analyzed(name: str) -> Analysis:
    return analyze(read_trace(SAMPLES / f"{name}.json.gz"))


def ttft_ns(analysis: Analysis) -> float:
    measured = [request.ttft_ns for request in analysis.requests if request.ttft_ns is not None]
    return sum(measured) / len(measured)


@pytest.mark.parametrize(
    ("name", "layers"),
    [
        ("vllm_h200x2_27_9", [27, 9]),
        ("vllm_h200x2_18_18", [18, 18]),
        ("vllm_h200x2_slowed_18_18", [18, 18]),
        ("sglang_h200x2_27_9", [27, 9]),
        ("sglang_h200x2_18_18", [18, 18]),
    ],
)
def test_the_run_is_known_and_every_state_sums_to_the_window(name: str, layers: list[int]) -> None:
    analysis = analyzed(name)
    assert [stage.layers for stage in analysis.stages] == layers
    assert analysis.lost == ()
    begin, end = analysis.window_ns
    assert {sum(stage.states_ns.values()) for stage in analysis.stages} == {end - begin}


@pytest.mark.parametrize("name", UNEVEN)
def test_every_prefill_step_is_the_same_on_both_ranks(name: str) -> None:
    spans = analyzed(name).spans
    forward = spans[(spans["kind"] == "forward") & (spans["phase"] == "prefill")]
    per_stage = [part[["step", "tokens", "prefix"]].values.tolist() for _, part in forward.groupby("stage")]
    assert per_stage[0] == per_stage[1]
    # A prompt of 32,000 tokens in chunks of 4096 is seven whole ones and 3328; warm-up and three requests.
    assert [tokens for _, tokens, _ in per_stage[0]] == 4 * [*[4096] * 7, 3328]


@pytest.mark.parametrize("name", UNEVEN)
def test_the_short_stage_waits_for_the_long_one_to_compute(name: str) -> None:
    analysis = analyzed(name)
    window = analysis.window_ns[1] - analysis.window_ns[0]
    blame = analysis.blame.set_index(["waiting_stage", "culprit_stage", "cause"])["ns"]
    assert 0.55 < blame[1, 0, "compute"] / window < 0.70
    assert analysis.stages[1].states_ns["starved"] > 8 * analysis.stages[0].states_ns["starved"]


@pytest.mark.parametrize(("before", "advised", "after"), FOLLOWED)
def test_the_advice_foretells_what_was_measured_with_it(
    before: str, advised: tuple[int, ...], after: str
) -> None:
    advice = analyzed(before).recommendation
    assert advice.partition == advised
    assert advice.predicted_ttft_ns == pytest.approx(ttft_ns(analyzed(after)), rel=0.03)


@pytest.mark.parametrize("name", [after for _, _, after in FOLLOWED])
def test_what_is_balanced_is_left_alone(name: str) -> None:
    assert analyzed(name).recommendation.partition is None


def test_turning_the_prompt_cache_off_saves_what_was_foretold() -> None:
    # GIVEN llama-server as it comes, on one card, and once more with the flag
    before, after = analyzed("llama_server_h200_cache"), analyzed("llama_server_h200_nocache")
    (finding,) = (each for each in before.findings if each.id == "prompt-cache")
    assert finding.flag == "--cache-ram 0"
    assert finding.ns == pytest.approx(ttft_ns(before) - ttft_ns(after), rel=0.02)
    # THEN that is what the time to first token is said to have gone into
    for request in before.requests:
        assert request.breakdown_ns["state"] == pytest.approx(finding.ns, rel=0.1)
    assert "prompt-cache" not in {each.id for each in after.findings}
