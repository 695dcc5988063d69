"""A sleep of known length in one function of a real vLLM: in the right span, state and culprit.

One server; each request has one function slowed down in each of its chunks, by far more than a chunk takes.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from bubblescope.analyzers.analysis import analyze
from bubblescope.analyzers.results import WAITING_STATES, Analysis, Options
from bubblescope.trace.model import Trace
from tests.engines.vllm.serving import command, installed, prepare, record

pytestmark = installed

#: Of each chunk; a layer sleeps for its share.
SLEEP_MS, LAYERS = 400, 4
#: Chunks of a prompt, all but the last of 256 tokens.
CHUNKS, PROMPT = 6, 1400

_QWEN = "vllm.model_executor.models.qwen"
#: In order of the requests: what sleeps, for how long, and on which stage if on one only.
SLOWED = {
    "nothing": "",
    "schedule": f"vllm.v1.core.sched.scheduler:Scheduler._make_cached_request_data={SLEEP_MS}@{{}}",
    "embed": f"{_QWEN}2:Qwen2Model.embed_input_ids={SLEEP_MS}@{{}}",
    "forward": f"{_QWEN}3:Qwen3DecoderLayer.forward={SLEEP_MS / LAYERS}@{{}}@0",
    "recv": "vllm.distributed.device_communicators.cpu_communicator:"
    f"CpuCommunicator.recv_tensor_dict={SLEEP_MS}@{{}}",
    "head": f"{_QWEN}3:Qwen3ForCausalLM.compute_logits={SLEEP_MS}@{{}}",
}


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    folder = tmp_path_factory.mktemp("slowed")
    prepare(folder)
    sleeps = [sleep.format(f"request-{number}") for number, sleep in enumerate(SLOWED.values(), 1) if sleep]
    load = ["--prompt-tokens", str(PROMPT), "--requests", str(len(SLOWED)), "--output-tokens", "1"]
    recording = record(
        folder, load, command(folder), VLLM_PP_LAYER_PARTITION="4,4", TAMPER_SLEEPS=",".join(sleeps)
    )
    assert recording.status == 0, recording.output
    return recording.trace


def of(trace: Trace, slowed: str) -> Analysis:
    """The analysis of that request alone, up to its first token."""
    request = trace.requests[~trace.requests["warmup"]].iloc[list(SLOWED).index(slowed)]
    return analyze(trace, Options(window_ns=(int(request["arrival_ns"]), int(request["first_token_ns"]))))


def lengths_ms(analysis: Analysis, kind: str, stage: int) -> list[float]:
    """Of the spans of a kind on a stage that lie in the window."""
    spans, (begin, end) = analysis.spans, analysis.window_ns
    own = spans[(spans["kind"] == kind) & (spans["stage"] == stage)]
    inside = own[(own["begin_ns"] >= begin) & (own["end_ns"] <= end)]
    return ((inside["end_ns"] - inside["begin_ns"]) / 1e6).tolist()


def state_ms(analysis: Analysis, stage: int, state: str) -> float:
    return analysis.stages[stage].states_ns[state] / 1e6


def blame_ms(analysis: Analysis, stage: int) -> dict[tuple[int, str], float]:
    """What a stage waited for: culprit and cause, the most first."""
    own = analysis.blame[analysis.blame["waiting_stage"] == stage].sort_values("ns", ascending=False)
    keys = zip(own["culprit_stage"].tolist(), own["cause"].tolist(), strict=True)
    return dict(zip(keys, (own["ns"] / 1e6).tolist(), strict=True))


@pytest.mark.parametrize(("kind", "stage"), [("embed", 0), ("forward", 0), ("recv", 1), ("head", 1)])
def test_the_span_of_what_sleeps_gets_longer_and_no_other(trace: Trace, kind: str, stage: int) -> None:
    assert sum(length >= SLEEP_MS for length in lengths_ms(of(trace, kind), kind, stage)) == CHUNKS
    usual = lengths_ms(of(trace, "nothing"), kind, stage)
    assert (len(usual), np.median(usual) < SLEEP_MS) == (CHUNKS, True)


@pytest.mark.parametrize("slowed", ["embed", "forward"])
def test_slow_work_of_the_first_stage_is_compute_and_the_next_one_starves_for_it(
    trace: Trace, slowed: str
) -> None:
    analysis = of(trace, slowed)
    assert state_ms(analysis, 0, "compute") >= CHUNKS * SLEEP_MS
    waited = blame_ms(analysis, 1)
    assert next(iter(waited)) == (0, "compute")
    # The next stage works meanwhile, for less than half of the sleep even on a busy machine.
    assert waited[0, "compute"] > (CHUNKS - 1) * SLEEP_MS / 2
    assert state_ms(analysis, 1, "starved") >= waited[0, "compute"]


def test_a_slow_head_is_compute_and_the_first_stage_waits_for_it(trace: Trace) -> None:
    analysis = of(trace, "head")
    assert state_ms(analysis, 1, "compute") >= CHUNKS * SLEEP_MS
    waited = blame_ms(analysis, 0)
    assert next(iter(waited)) == (1, "compute")
    assert state_ms(analysis, 0, "blocked") > (CHUNKS - 2) * SLEEP_MS / 2


def test_a_slow_receive_is_transfer_and_the_sender_is_blocked_by_the_receiver(trace: Trace) -> None:
    analysis = of(trace, "recv")
    states = analysis.stages[1].states_ns
    # All but the first, which may begin before there is something to receive.
    assert state_ms(analysis, 1, "transfer") >= (CHUNKS - 1) * SLEEP_MS
    assert max(states, key=lambda state: states[state]) == "transfer"
    waited = blame_ms(analysis, 0)
    assert next(iter(waited))[0] == 1
    assert state_ms(analysis, 0, "blocked") > (CHUNKS - 2) * SLEEP_MS / 2


def test_a_slow_scheduler_is_the_first_stage_s_own_host(trace: Trace) -> None:
    analysis = of(trace, "schedule")
    assert min(lengths_ms(analysis, "schedule", 0)) >= SLEEP_MS
    assert next(iter(blame_ms(analysis, 0))) == (0, "host")
    # Other batches in flight keep the stage busy for a part of the time that the scheduler sleeps.
    scheduling = analysis.spans[analysis.spans["kind"] == "schedule"]
    first = analysis.timeline[analysis.timeline["device"] == 0]
    waited = {
        state: _overlap_ns(first[first["state"] == state], scheduling) / 1e6 for state in WAITING_STATES
    }
    assert waited["host"] > SLEEP_MS
    assert waited["host"] > 0.9 * sum(waited.values())


def _overlap_ns(some: pd.DataFrame, others: pd.DataFrame) -> int:
    """How long a row of one table and a row of the other hold at once."""
    begin = np.maximum.outer(some["begin_ns"].to_numpy(), others["begin_ns"].to_numpy())
    end = np.minimum.outer(some["end_ns"].to_numpy(), others["end_ns"].to_numpy())
    return int(np.maximum(end - begin, 0).sum())
