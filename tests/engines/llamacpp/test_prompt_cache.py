"""A real llama-server's prompt cache, which is on unless told otherwise, over fake GPUs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from bubblescope.analyzers.analysis import analyze
from bubblescope.analyzers.results import Analysis, Finding
from bubblescope.trace.read import read_trace
from tests.engines.llamacpp.gguf import Shape
from tests.engines.llamacpp.running import free_port, installed, make, serve, server
from tests.record.commands import wait_until

pytestmark = installed

PROMPT, REQUESTS = 2000, 4


@dataclass(frozen=True)
class Way:
    """How to run it: heads of keys and values, their size, microseconds for a node of a graph, options."""

    kv_heads: int
    head_size: int
    node_us: int
    options: tuple[str, ...] = ()

    @property
    def kv_cache(self) -> int:
        """Bytes of a prompt: keys and values of 8 layers, 2 bytes a number."""
        return PROMPT * 8 * 2 * self.kv_heads * self.head_size * 2


#: Saving the large KV cache takes a good part of a prompt's time, saving the small one next to nothing.
WAYS = {
    "large": Way(4, 512, 200),
    "small": Way(2, 16, 500),
    "off": Way(4, 512, 200, ("--cache-ram", "0")),
}

Run = Callable[[str], Analysis]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run in a way, once for all tests."""
    made: dict[str, Analysis] = {}

    def once(name: str) -> Analysis:
        if name not in made:
            way, folder = WAYS[name], tmp_path_factory.mktemp(name)
            fakes = make(folder, Shape(layers=8, kv_heads=way.kv_heads, head_size=way.head_size))
            load = {"prompt": PROMPT, "requests": REQUESTS, "node_us": [way.node_us] * 3}
            made[name] = serve(fakes, folder, *way.options, **load)
        return made[name]

    return once


def saved_ns(analysis: Analysis) -> int:
    """How long saving took, of all prompts together."""
    saves = analysis.spans[analysis.spans["kind"] == "save"]
    return int((saves["end_ns"] - saves["begin_ns"]).sum())


def finding(analysis: Analysis) -> Finding | None:
    return {each.id: each for each in analysis.findings}.get("prompt-cache")


@pytest.mark.parametrize("way", ["large", "small"])
def test_every_prompt_begins_with_saving_the_last_one(way: str, run: Run) -> None:
    analysis = run(way)
    saves = analysis.spans[analysis.spans["kind"] == "save"]
    # GIVEN a first prompt to warm up, before which there is nothing to save
    assert len(saves) == REQUESTS
    for request, begin, end in zip(analysis.requests, saves["begin_ns"], saves["end_ns"], strict=True):
        later = analysis.spans[analysis.spans["begin_ns"] >= request.arrival_ns]
        assert request.arrival_ns <= begin < end <= later.loc[later["kind"] == "forward", "begin_ns"].min()
        assert 0 < request.breakdown_ns["state"] <= end - begin
        assert sum(request.breakdown_ns.values()) == request.ttft_ns


@pytest.mark.parametrize("way", ["large", "small"])
def test_what_is_saved_is_the_kv_cache(way: str, run: Run) -> None:
    saves = run(way).spans.query("kind == 'save'")
    assert saves["bytes"].nunique() == 1
    # Beside it some bytes for the place of each token in its sequence.
    size = int(saves["bytes"].iloc[0])
    assert WAYS[way].kv_cache <= size <= WAYS[way].kv_cache + 20 * PROMPT


@pytest.mark.parametrize("way", ["large", "small"])
def test_it_is_found_where_it_costs_more_than_a_hundredth_of_a_prompt(way: str, run: Run) -> None:
    analysis = run(way)
    makespan_ns = analysis.recommendation.makespan_ns
    assert makespan_ns is not None
    share = saved_ns(analysis) / REQUESTS / makespan_ns
    found = finding(analysis)
    assert (found is not None) == (share > 0.01)
    if found is not None:
        assert found.flag == "--cache-ram 0"
        assert found.ns == pytest.approx(saved_ns(analysis) / REQUESTS, rel=0.01)


def test_switched_off_it_is_not_found(run: Run) -> None:
    off = run("off")
    assert not off.spans["kind"].isin(("save", "restore")).any()
    assert finding(off) is None
    assert all("state" not in request.breakdown_ns for request in off.requests)


def test_switching_it_off_gains_what_was_predicted(run: Run) -> None:
    found, off = finding(run("large")), run("off").recommendation.makespan_ns
    assert found is not None and found.predicted_gain is not None and off is not None
    # The gain is of the mean prompt on the devices, its saving included.
    without = found.ns / found.predicted_gain * (1 - found.predicted_gain)
    assert off == pytest.approx(without, rel=0.15)


def complete(port: int, first: int) -> None:
    """Have the server compute a prompt whose tokens are those from `first` on."""
    body = json.dumps({"prompt": [first + i % 200 for i in range(PROMPT)], "n_predict": 1})
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/completion", body.encode(), timeout=60) as answer:
        assert answer.status == 200


def answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=60) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_a_prompt_that_comes_again_is_restored_and_no_flag_is_named(tmp_path: Path) -> None:
    fakes, port = make(tmp_path, Shape(layers=8, kv_heads=4, head_size=512)), free_port()
    record = [sys.executable, "-m", "bubblescope", "record", "-o", "t.json", "--", *server(fakes, port)]
    with subprocess.Popen(
        record, env=fakes.environment(tmp_path / "log", (50, 50, 50)), cwd=tmp_path,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        try:
            wait_until(lambda: answers(port))
            # GIVEN a prompt, another one, and the first one again
            for first in (1, 300, 1):
                complete(port, first)
        finally:
            process.send_signal(signal.SIGINT)
    analysis = analyze(read_trace(tmp_path / "t.json"))
    saves, restores = (analysis.spans[analysis.spans["kind"] == kind] for kind in ("save", "restore"))
    # THEN the first was saved, then the second, and the first was restored
    assert (len(saves), len(restores)) == (2, 1)
    assert restores["bytes"].iloc[0] == saves["bytes"].iloc[0]
    found = finding(analysis)
    assert found is not None and found.flag is None
    assert found.text.endswith("; it restored 1 from there")
