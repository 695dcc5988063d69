"""What keeps llama.cpp's devices from working at the same time."""

from __future__ import annotations

from typing import Any

import pytest

from bubblescope.analyzers.analysis import analyze
from tests.analyzers.findings.recordings import PIPELINED, found, ubatch
from tests.analyzers.spans import Span, recording

OFF: dict[str, Any] = {"llama_pipelining": False, "llama_copies": 1, "chunk_tokens": 512}
#: Costs that are always told, large or small.
COSTS = {"cpu-embedding", "wasted-copies", "input-copies", "input-filling", "graph-building", "cpu-splits"}


def serial(count: int = 4, **more: Any) -> list[Span]:
    """Embedding takes 1 ms, then each of two devices 10, and the host waits for both: 21 in all."""
    spans: list[Span] = []
    for number in range(count):
        at = 21 * number
        spans += ubatch(number, at, [(at + 1, at + 11), (at + 11, at + 21)], embed=1, waited=20, **more)
    return spans


def in_a_row(count: int = 4, schedule: float = 1, tokens: int = 512) -> list[Span]:
    """The host builds a graph and embeds in 1 ms; two devices take 10 each, at the same time."""
    spans: list[Span] = []
    for number in range(count):
        begin = schedule + 1 + 10 * number
        forwards = [(begin, begin + 10), (begin + 10, begin + 20)]
        spans += ubatch(number, (schedule + 1) * number, forwards, schedule=schedule, embed=1, tokens=tokens)
    return spans


def drained(count: int = 8, tokens: int = 64) -> list[Span]:
    """The first graph is built in 2 ms, the others are reused, each after both devices are done."""
    spans = list(ubatch(0, 0, [(3, 13), (13, 23)], schedule=2, embed=1, tokens=tokens))
    for number in range(1, count):
        done = 23 + 21 * (number - 1)
        forwards = [(done + 1, done + 11), (done + 11, done + 21)]
        spans += ubatch(number, done, forwards, drained=20, embed=1, tokens=tokens)
    return spans


def test_a_tensor_moved_by_a_flag_turns_pipelining_off() -> None:
    facts = {**OFF, "llama_pipelining_lacks": ["ot"], "llama_flags": {"ot": "token_embd.weight=FAKE0"}}
    finding = found(serial(), 2, facts)["override-drain"]
    # THEN 4 * 21 ms would be 1 + 4 * 10 + 10
    assert finding.predicted_gain == pytest.approx(1 - 51 / 84)
    assert finding.ns == pytest.approx(33_000_000, abs=10)
    assert finding.flag == "remove -ot token_embd.weight=FAKE0"


@pytest.mark.parametrize(
    ("lacks", "name", "flag"),
    [
        ("ngl", "layers-on-cpu", "-ngl 99"),
        ("sm", "pipelining-off", "-sm layer"),
        ("nkvo", "kv-cache-on-cpu", "remove -nkvo"),
        ("events", "pipelining-off", None),
    ],
)
def test_each_condition_that_failed_is_named_with_its_flag(lacks: str, name: str, flag: str | None) -> None:
    findings = found(serial(), 2, {**OFF, "llama_pipelining_lacks": [lacks]})
    assert set(findings) - COSTS == {name}
    assert findings[name].flag == flag


def test_where_two_conditions_failed_neither_alone_gains_anything() -> None:
    findings = found(serial(), 2, {**OFF, "llama_pipelining_lacks": ["nkvo", "ot"]})
    assert set(findings) - COSTS == {"kv-cache-on-cpu", "override-drain"}
    assert [each.predicted_gain for each in findings.values()] == [None] * len(findings)


def test_what_the_cpu_did_is_not_taken_for_what_a_device_would_need() -> None:
    findings = found(serial(split=0.5), 2, {**OFF, "llama_pipelining_lacks": ["nkvo"]})
    # THEN the loss is how long a device does not work: of 84.5 ms 44.5 on each
    assert findings["kv-cache-on-cpu"].predicted_gain is None
    assert findings["kv-cache-on-cpu"].ns == 44_000_000


def test_no_reason_is_made_up_where_none_shows() -> None:
    (finding,) = (
        each
        for name, each in found(serial(), 2, {**OFF, "llama_pipelining_lacks": []}).items()
        if name not in COSTS
    )
    assert (finding.id, finding.flag) == ("pipelining-off", None)


def test_one_device_has_nothing_to_pipeline() -> None:
    spans: list[Span] = []
    for number in range(4):
        at = 11 * number
        spans += ubatch(number, at, [(at + 1, at + 11)], embed=1, waited=10)
    assert set(found(spans, 1, {**OFF, "llama_pipelining_lacks": ["devices"]})) <= COSTS


def test_a_pipeline_in_order_has_no_findings_but_what_the_host_does() -> None:
    assert set(found(in_a_row(), 2, PIPELINED)) <= COSTS


def test_reused_graphs_drain_the_pipeline() -> None:
    facts = {**PIPELINED, "chunk_tokens": 64}
    finding = found(drained(), 2, facts)["graph-reuse-drain"]
    # THEN 23 + 7 * 21 ms would be, with a graph built in 2 ms for each, 3 + 8 * 10 + 10
    assert finding.predicted_gain == pytest.approx(1 - 93 / 170)
    assert finding.flag == "LLAMA_GRAPH_REUSE_DISABLE=1"
    assert finding.text.startswith("7 of 8 ubatches")


def test_a_graph_that_is_built_again_drains_nothing() -> None:
    assert "graph-reuse-drain" not in found(in_a_row(), 2, PIPELINED)


def test_small_ubatches_that_the_host_cannot_keep_up_with() -> None:
    # GIVEN graphs built in 5 ms, embeddings in 1, for ubatches that each device runs in 2
    spans: list[Span] = []
    for number in range(16):
        at = 6 * number
        forwards = [(at + 6, at + 8), (at + 8, at + 10)]
        spans += ubatch(number, at, forwards, schedule=5, embed=1, tokens=64)
    finding = found(spans, 2, {**PIPELINED, "chunk_tokens": 64, "batch_tokens": 512})["small-ubatch"]
    # THEN of 100 ms two ubatches of 512 leave 61: 13 until the first is there, 16 + 16, and 16 on the last
    assert finding.predicted_gain == pytest.approx(1 - 61 / 100)
    assert finding.flag == "-ub 512 -b 2048"


def test_what_small_ubatches_cost_a_device_does_not_show() -> None:
    finding = found(in_a_row(tokens=64), 2, {**PIPELINED, "chunk_tokens": 64})["small-ubatch"]
    # THEN nothing is foretold where the host keeps up: one ubatch of 256 tokens would even take longer
    assert (finding.ns, finding.predicted_gain, finding.flag) == (0, None, "-ub 512")


def test_a_prompt_of_one_ubatch_gains_nothing_by_larger_ones() -> None:
    assert "small-ubatch" not in found(in_a_row(1, tokens=64), 2, {**PIPELINED, "chunk_tokens": 64})


def test_other_engines_have_no_such_findings() -> None:
    facts = {**OFF, "llama_pipelining_lacks": ["ot"]}
    assert analyze(recording(serial(), 2, facts, engine="vllm")).findings == ()


def test_no_split_is_advised_while_the_devices_take_turns() -> None:
    facts = {**OFF, "llama_pipelining_lacks": ["ot"]}
    advised = analyze(recording(serial(), 2, facts, partition=(6, 2))).recommendation
    assert advised.partition is None
    assert advised.reason.startswith("pipelining is off")
