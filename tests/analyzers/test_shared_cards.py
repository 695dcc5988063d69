"""Stages whose processes have one card between them."""

from __future__ import annotations

from dataclasses import replace

from bubblescope.analyzers.analysis import analyze
from bubblescope.analyzers.results import Analysis
from tests.analyzers.spans import Span, recording

#: Stage 1 waits for stage 0, which has six of eight layers.
SPANS = [
    span
    for chunk in range(4)
    for span in (
        Span("forward", 0, 60 * chunk, 60 * chunk + 60, chunk, tokens=10, prefix=10 * chunk),
        Span("send", 0, 60 * chunk + 60, 60 * chunk + 61, chunk, peer=1),
        Span("recv", 1, 60 * chunk + 20, 60 * chunk + 61, chunk, peer=0),
        Span("forward", 1, 60 * chunk + 61, 60 * chunk + 80, chunk, tokens=10, prefix=10 * chunk),
    )
]


def analyzed(**uuids: str) -> Analysis:
    facts = {f"uuid:{stage[-1]}:{stage[-1]}": uuid for stage, uuid in uuids.items()}
    trace = recording(SPANS, 2, facts, engine="sglang", partition=(6, 2))
    devices = tuple(replace(device, rank=number) for number, device in enumerate(trace.run.devices))
    return analyze(replace(trace, run=replace(trace.run, devices=devices)))


def test_stages_of_one_card_are_told_and_no_split_is_advised() -> None:
    found = analyzed(stage0="GPU-1", stage1="GPU-1")
    (lost,) = (each for each in found.lost if each.what == "cards of their own")
    assert lost.why.startswith("stages 0 and 1 run on one card")
    assert found.recommendation.partition is None
    assert found.recommendation.reason.startswith("stages 0 and 1 share one card")


def test_stages_with_a_card_each_are_as_they_were() -> None:
    for found in (analyzed(stage0="GPU-1", stage1="GPU-2"), analyzed()):
        assert not any(each.what == "cards of their own" for each in found.lost)
        assert "card" not in found.recommendation.reason
