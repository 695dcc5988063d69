"""What a batch of SGLang holds, and the number that it gets."""

from __future__ import annotations

from types import SimpleNamespace as Some
from typing import Any

from bubblescope.collectors._bubblescope_inject.sglang import batches


def mode(kind: str) -> Some:
    return Some(is_idle=lambda: kind == "idle", is_extend=lambda: kind == "extend")


def request(prompt: int, answered: int = 0) -> Some:
    return Some(origin_input_ids=[1] * prompt, output_ids=[1] * answered)


def batch(kind: str, requests: list[Some], **lengths: list[int]) -> Any:
    return Some(forward_mode=mode(kind), reqs=requests, **lengths)


def numbered(one: Any) -> tuple[str, int, int] | None:
    step = batches.numbered(one)
    assert batches.step_of(one) == step
    return step[1:] if step is not None else None


def test_a_chunk_of_a_prompt() -> None:
    chunk = batch("extend", [request(32_000)], extend_lens=[4096], prefix_lens=[8192])
    assert numbered(chunk) == ("prefill", 4096, 8192)


def test_requests_that_are_being_answered() -> None:
    # 100 tokens of the prompt and one of two answered are in the cache; the second is put in now.
    assert numbered(batch("decode", [request(100, 2), request(100, 2)])) == ("decode", 2, 101)


def test_answers_mixed_into_a_prompt() -> None:
    mixed = batch("extend", [request(1000), request(100, 2)], extend_lens=[399, 1], prefix_lens=[0, 101])
    # (399 x 0 + 1 x 101) / 400 = 0.2525.
    assert numbered(mixed) == ("mixed", 400, 0)


def test_batches_are_counted_also_those_without_tokens() -> None:
    before = batches.numbered(batch("decode", [request(5, 1)]))
    assert numbered(batch("idle", [])) is None
    after = batches.numbered(batch("decode", [request(5, 1)]))
    assert before is not None and after is not None
    assert after[0] == before[0] + 2


def test_a_plan_and_a_bare_batch_are_both_understood() -> None:
    one = batch("idle", [])
    assert batches.chosen(one) is one
    assert batches.chosen(Some(batch_to_run=one, running_batch=None)) is one
    assert batches.chosen(Some(batch_to_run=None)) is None
    assert batches.chosen(None) is None
