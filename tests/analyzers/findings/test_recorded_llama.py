"""Recordings of llama.cpp on two H200, in sample_traces: what was advised, and what came of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bubblescope.analyzers.analysis import analyze
from bubblescope.analyzers.findings.replay import replay
from bubblescope.analyzers.findings.ubatches import ubatches
from bubblescope.analyzers.results import Analysis
from bubblescope.trace.read import read_trace

RECORDED = Path(__file__).parents[3] / "sample_traces" / "recorded"
#: Diagnoses, as against what the host does in every recording.
COSTS = {"cpu-embedding", "wasted-copies", "input-copies", "input-filling", "graph-building"}


def analysis(name: str) -> Analysis:
    return analyze(read_trace(RECORDED / f"llama_h200x2_{name}.json.gz"))


def makespan_ns(of: Analysis) -> float:
    """Of a prompt, without the first, which warms up."""
    found = ubatches(of)
    assert found is not None
    return float(found.makespan_ns()[1:].mean())


def test_the_advised_split_took_what_was_foretold() -> None:
    uneven, advised = analysis("28_8"), analysis("17_19")
    assert uneven.recommendation.partition == (17, 19) == advised.trace.run.partition
    assert uneven.recommendation.words == "-ngl 99 -sm layer -dev CUDA0/CUDA1 -ts 17/20"
    (finding,) = (each for each in uneven.findings if each.id == "layer-split")
    assert finding.predicted_gain is not None
    foretold = makespan_ns(uneven) * (1 - finding.predicted_gain)
    assert foretold == pytest.approx(makespan_ns(advised), rel=0.1)
    assert advised.recommendation.partition is None


@pytest.mark.parametrize("name", ["17_19", "small_13_11"])
def test_where_pipelining_is_on_and_ubatches_are_large_nothing_else_is_found(name: str) -> None:
    assert {each.id for each in analysis(name).findings} - {"layer-split"} == COSTS


@pytest.mark.parametrize("name", ["28_8", "17_19", "small_13_11"])
def test_playing_the_recording_again_takes_as_long(name: str) -> None:
    found = ubatches(analysis(name))
    assert found is not None
    assert replay(found, 4).error < 0.03


def test_a_small_model_is_held_up_by_its_host() -> None:
    small, large = analysis("small_13_11"), analysis("17_19")
    for each, least, most in ((small, 0.1, 1.0), (large, 0.0, 0.02)):
        (filling,) = (found for found in each.findings if found.id == "input-filling")
        assert least <= filling.ns / makespan_ns(each) <= most
