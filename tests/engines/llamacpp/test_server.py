"""A real llama-server over fake GPUs, started, driven and recorded by one command."""

from __future__ import annotations

import pytest

from bubblescope.analyzers.results import Analysis
from tests.engines.llamacpp.running import installed, make, serve

pytestmark = installed

PROMPT, REQUESTS = 2000, 2
#: Three whole ubatches and the rest.
UBATCHES = [512, 512, 512, 464]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    folder = tmp_path_factory.mktemp("server")
    node_us = (500, 500, 500)
    return serve(make(folder), folder, "-ts", "6,1,2", prompt=PROMPT, requests=REQUESTS, node_us=node_us)


def test_requests_are_known_with_their_time_to_first_token(served: Analysis) -> None:
    measured = [each for each in served.requests if each.ttft_ns is not None]
    assert [each.prompt_tokens for each in measured] == [PROMPT] * REQUESTS
    for each in measured:
        assert sum(each.breakdown_ns.values()) == each.ttft_ns
        # Of the stages the first has 6 of 8 layers, and computes longest.
        assert each.breakdown_ns["compute_stage_0"] > each.breakdown_ns["compute_stage_1"]


def test_prompts_are_told_ubatch_by_ubatch(served: Analysis) -> None:
    spans = served.spans
    begin, end = served.window_ns
    inside = spans[(spans["begin_ns"] >= begin) & (spans["end_ns"] <= end)]
    first = inside[(inside["kind"] == "forward") & (inside["stage"] == 0) & (inside["phase"] == "prefill")]
    assert first["tokens"].tolist() == UBATCHES * REQUESTS
    assert first["prefix"].tolist() == [0, 512, 1024, 1536] * REQUESTS


def test_the_advice_is_in_the_words_of_a_server(served: Analysis) -> None:
    assert served.recommendation.words is not None
    assert served.recommendation.words.startswith("-ngl 99 -sm layer -dev FAKE0,FAKE1,FAKE2 -ts ")
    (finding,) = (each for each in served.findings if each.id == "layer-split")
    assert finding.flag == served.recommendation.words
