"""A recording of vLLM with every kernel: what can be counted by hand from the model is what is there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bubblescope.analyzers.analysis import analyze
from bubblescope.analyzers.results import Analysis
from bubblescope.trace.read import read_trace

SAMPLE = Path(__file__).parents[2] / "sample_traces" / "recorded" / "vllm_h200x2_27_9_kernels.json.gz"
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
