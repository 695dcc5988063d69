"""What llama.cpp's host does for each ubatch, and what a prompt takes longer for it."""

from __future__ import annotations

import pytest

from tests.analyzers.findings.recordings import EMBEDDINGS, PIPELINED, found, ubatch
from tests.analyzers.spans import Span

ALONE = {"llama_pipelining": False, "llama_copies": 1, "llama_pipelining_lacks": ["devices"]}


def one_device(embed: float = 1, count: int = 4) -> list[Span]:
    """The device takes 10 ms after each embedding, and the host waits for it."""
    spans: list[Span] = []
    for number in range(count):
        at = (10 + embed) * number
        spans += ubatch(number, at, [(at + embed, at + embed + 10)], embed=embed, waited=10)
    return spans


def hidden(embed: float, copies: tuple[tuple[float, int], ...] = ()) -> list[Span]:
    """Two devices of 10 ms each, and a host that is ahead of them."""
    ahead = embed + sum(taken for taken, _ in copies)
    spans: list[Span] = []
    for number in range(4):
        begin = ahead + 10 * number
        forwards = [(begin, begin + 10), (begin + 10, begin + 20)]
        spans += ubatch(number, ahead * number, forwards, embed=embed, copies=copies)
    return spans


def test_embedding_on_the_cpu_costs_one_device_all_of_its_time() -> None:
    finding = found(one_device(embed=2), 1, ALONE)["cpu-embedding"]
    assert finding.ns == 4 * 2_000_000
    assert finding.predicted_gain == pytest.approx(8 / 48)
    assert finding.flag == r"-ot 'token_embd\.weight=FAKE0'"


def test_behind_working_devices_only_the_first_embedding_costs_time() -> None:
    # GIVEN 4 embeddings of 2 ms, of which the devices see only the first
    finding = found(hidden(embed=2), 2, PIPELINED)["cpu-embedding"]
    assert finding.ns == pytest.approx(2_000_000, abs=10)
    assert "8 ms of the host per prompt" in finding.text
    # THEN no flag is named: the one there is turns pipelining off
    assert finding.flag is None


def test_copies_that_nothing_needs() -> None:
    # GIVEN three copies of the embeddings' size, and one of another
    copies = ((0.5, EMBEDDINGS), (0.5, EMBEDDINGS), (0.5, EMBEDDINGS), (0.25, 100))
    findings = found(hidden(1, copies), 2, PIPELINED)
    # THEN two of them are wasted: of 4 ubatches 4 ms, and 1 ms is seen before the first device begins
    assert findings["wasted-copies"].text.startswith("2 of 3 copies")
    assert "4 ms of the host per prompt" in findings["wasted-copies"].text
    assert findings["wasted-copies"].ns == pytest.approx(1_000_000, abs=10)
    assert findings["wasted-copies"].flag is None
    assert findings["input-copies"].ns == pytest.approx(1_750_000, abs=10)
    assert "4 times per ubatch" in findings["input-copies"].text


def test_one_copy_of_the_embeddings_is_needed() -> None:
    findings = found(hidden(1, ((0.5, EMBEDDINGS),)), 2, PIPELINED)
    assert "wasted-copies" not in findings
    assert "input-copies" in findings


def test_an_input_that_has_the_embeddings_size_once_is_not_taken_for_waste() -> None:
    spans = hidden(1, ((0.5, EMBEDDINGS),))
    same = next(span for span in spans if span.kind == "copy" and span.microbatch == 2)
    later = Span("copy", 0, same.end, same.end + 100, 2, 512, 1024, bytes=EMBEDDINGS)
    assert "wasted-copies" not in found([*spans, later], 2, PIPELINED)


def test_embeddings_that_a_device_looks_up_are_no_work_of_the_cpu() -> None:
    spans: list[Span] = []
    for number in range(4):
        at = 11 * number
        spans += ubatch(number, at, [(at + 1, at + 11)], embed=1, waited=10, lookup=False)
    assert "cpu-embedding" not in found(spans, 1, ALONE)


def test_parts_that_run_on_the_cpu_between_devices() -> None:
    spans: list[Span] = []
    for number in range(4):
        at = 14 * number
        spans += ubatch(number, at, [(at + 4, at + 14)], embed=1, split=3, waited=10)
    finding = found(spans, 1, {**ALONE, "llama_pipelining_lacks": ["nkvo"]})["cpu-splits"]
    assert finding.ns == 4 * 3_000_000
    assert "once per ubatch" in finding.text


def test_warm_ups_and_prompts_cut_off_do_not_count() -> None:
    # GIVEN a first prompt of one ubatch, and then one of four
    first = list(ubatch(0, 0, [(5, 10)], embed=5, waited=5))
    second = [
        Span(span.kind, span.stage, span.begin + 20_000_000, span.end + 20_000_000, span.microbatch + 1,
             span.tokens, span.prefix, span.bytes, clock=span.clock)
        for span in one_device(embed=2)
    ]  # fmt: skip
    assert found([*first, *second], 1, ALONE)["cpu-embedding"].ns == 8_000_000
