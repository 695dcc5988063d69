"""Recordings of vLLM and SGLang with every kernel: what can be counted by hand from the model is there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bubblescope.analyzers.analysis import analyze
from bubblescope.analyzers.results import Analysis
from bubblescope.trace.read import read_trace

RECORDED = Path(__file__).parents[2] / "sample_traces" / "recorded"
SAMPLE = RECORDED / "vllm_h200x2_27_9_kernels.json.gz"
CHUNKS = 2 * 8  # two prompts of 32,000 tokens in chunks of 4096


@pytest.fixture(scope="module")
def found() -> Analysis:
    return analyze(read_trace(SAMPLE))


def test_every_kernel_of_a_forward_is_joined_to_its_chunk(found: Analysis) -> None:
    # GIVEN 13 kernels a layer, and one norm after the last
    slices = found.trace.slices
    device = found.trace.tracks["device"].to_numpy()[slices["track"].to_numpy()]
    kernels = slices.assign(device=device)[(slices["category"] == "kernel") & (slices["operation"] == "")]
    per_chunk = kernels[kernels["span"] == "forward"].groupby(["device", "microbatch"]).size()
    assert per_chunk.loc[0].tolist() == [27 * 13] * CHUNKS
    assert per_chunk.loc[1].tolist() == [9 * 13 + 1] * CHUNKS
    # THEN none that ran while a forward did is joined to anything else
    for stage in (0, 1):
        own = kernels[kernels["device"] == stage]
        forward = found.spans[(found.spans["stage"] == stage) & (found.spans["kind"] == "forward")]
        at = np.searchsorted(forward["begin_ns"].to_numpy(), own["begin_ns"].to_numpy(), side="right") - 1
        inside = own["begin_ns"].to_numpy() < forward["end_ns"].to_numpy()[np.maximum(at, 0)]
        assert set(own["span"][inside & (at >= 0)]) == {"forward"}


def test_messages_are_paired_within_their_chunk(found: Analysis) -> None:
    # GIVEN two tensors handed over per chunk
    messages = found.trace.slices[found.trace.slices["operation"].isin(["send", "recv"])]
    assert messages.groupby("operation", observed=True).size().tolist() == [2 * CHUNKS, 2 * CHUNKS]
    assert set(messages["peer"][messages["operation"] == "send"]) == {1}
    assert not any("paired" in lost.what or "other side" in lost.what for lost in found.lost)


def test_the_layers_cost_the_same_kernels_on_both_stages(found: Analysis) -> None:
    times = found.kernel_times.set_index(["stage", "part"])["layer_ns"] / 1e6
    for part, longest in (("attention", 1.9), ("matrix", 2.1), ("other", 0.4)):
        # The waiting card clocks higher, so its layers are faster, by less than a fifth.
        assert 0.8 * times[0, part] < times[1, part] < times[0, part] < longest
    assert found.recommendation.partition == (18, 18)


def test_it_waits_for_the_longer_stage_and_not_for_its_host(found: Analysis) -> None:
    worst = found.blame.iloc[found.blame["ns"].argmax()]
    assert worst[["waiting_stage", "culprit_stage", "cause"]].tolist() == [1, 0, "compute"]
    assert "launch-bound" not in {finding.id for finding in found.findings}


@pytest.fixture(scope="module")
def hesitant() -> Analysis:
    """SGLang, whose host launches kernels no faster than they run, and hears of data before receiving it."""
    return analyze(read_trace(RECORDED / "sglang_h200x2_27_9_kernels.json.gz"))


def test_what_a_stage_asked_for_is_waited_for_before_its_receive_is_launched(hesitant: Analysis) -> None:
    # GIVEN a receive that is short on the device: it is launched when the data is to come
    window, states = hesitant.window_ns, hesitant.stages[1].states_ns
    slices = hesitant.trace.slices
    received = slices[(slices["operation"] == "recv") & (slices["span"] == "recv")]
    assert (received["end_ns"] - received["begin_ns"]).max() < 1_000_000
    # THEN two thirds of the time stage 1 waits for stage 0, which its own profiler saw alike
    assert 0.66 < states["starved"] / (window[1] - window[0]) < 0.70
    worst = hesitant.blame.iloc[hesitant.blame["ns"].argmax()]
    assert worst[["waiting_stage", "culprit_stage", "cause"]].tolist() == [1, 0, "compute"]
    assert hesitant.recommendation.partition == (18, 18)


def test_gaps_between_kernels_are_the_host_s(hesitant: Analysis) -> None:
    shares = [stage.states_ns["host"] for stage in hesitant.stages]
    found = {finding.stage: finding.ns for finding in hesitant.findings if finding.id == "launch-bound"}
    assert set(found) == {0, 1}
    assert all(0.5 * host < found[stage] < host for stage, host in enumerate(shares))
    (request,) = hesitant.requests
    assert request.breakdown_ns["host"] > 0.9 * found[0]
    assert sum(request.breakdown_ns.values()) == request.ttft_ns
