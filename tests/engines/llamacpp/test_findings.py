"""What costs llama.cpp time is found in recordings of it, where it is and nowhere else.

The numbers are held against what the fake GPUs logged, and against what llama.cpp takes once it is told
what was advised.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.engines.llamacpp.running import Benched, Fakes, bench, installed, make

pytestmark = installed

#: What the host does for each ubatch is told of every recording, large or small.
COSTS = {"input-copies", "input-filling", "graph-building"}
CPU_EMBEDDING = {"cpu-embedding", "wasted-copies"}
EMBEDDINGS = ("-ot", "token_embd.weight=FAKE0")
#: Of each way to run it the options, and what is found beside COSTS.
WAYS: dict[str, tuple[tuple[str, ...], set[str]]] = {
    "default": ((), CPU_EMBEDDING),
    "embeddings": (EMBEDDINGS, {"override-drain"}),
    "small": (("-ub", "64", "-r", "2"), {*CPU_EMBEDDING, "graph-reuse-drain", "small-ubatch"}),
    "small_built": (("-ub", "64", "-r", "2"), {*CPU_EMBEDDING, "small-ubatch"}),
    "uneven": (("-ts", "6/1/2"), {*CPU_EMBEDDING, "layer-split"}),
    "one_left_out": (("-ts", "7/1/1"), {*CPU_EMBEDDING, "layer-split", "device-without-layers"}),
    "kv_on_cpu": (("-nkvo", "1"), {*CPU_EMBEDDING, "kv-cache-on-cpu", "cpu-splits"}),
    "one": (("-dev", "FAKE0"), CPU_EMBEDDING),
}

Run = Callable[[str], Benched]


@pytest.fixture(scope="module")
def fakes(tmp_path_factory: pytest.TempPathFactory) -> Fakes:
    return make(tmp_path_factory.mktemp("fakes"))


@pytest.fixture(scope="module")
def run(fakes: Fakes, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run in a way, once for all tests."""
    made: dict[str, Benched] = {}

    def once(way: str) -> Benched:
        if way not in made:
            variables = {"LLAMA_GRAPH_REUSE_DISABLE": "1"} if way == "small_built" else {}
            made[way] = bench(fakes, tmp_path_factory.mktemp(way), *WAYS[way][0], **variables)
        return made[way]

    return once


@pytest.mark.parametrize("way", WAYS)
def test_bubbles_are_those_that_the_devices_logged(way: str, run: Run) -> None:
    found = run(way)
    shares = []
    for device in found.analysis.devices:
        open_ns = sum(device.states_ns.values()) - device.states_ns["idle"]
        shares.append(
            (device.states_ns["compute"] / open_ns, found.logged_compute_ns(device.device) / open_ns)
        )
    recorded, logged = (1 - sum(each) / len(shares) for each in zip(*shares, strict=True))
    assert recorded == pytest.approx(logged, abs=0.02)


@pytest.mark.parametrize("way", WAYS)
def test_each_finding_is_where_it_should_be_and_nowhere_else(way: str, run: Run) -> None:
    assert run(way).findings() == COSTS | WAYS[way][1]


@pytest.mark.parametrize(
    ("before", "finding", "after"),
    [
        ("embeddings", "override-drain", "default"),
        ("small", "graph-reuse-drain", "small_built"),
        # Evenly over all three is what llama.cpp does unless told otherwise.
        ("one_left_out", "device-without-layers", "default"),
    ],
)
def test_following_a_finding_s_flag_gains_what_was_predicted(
    before: str, finding: str, after: str, run: Run
) -> None:
    predicted = run(before).best / (1 - run(before).gain(finding))
    assert run(after).best == pytest.approx(predicted, rel=0.1)


def test_larger_ubatches_gain_at_least_what_was_predicted(run: Run) -> None:
    predicted = run("small").best / (1 - run("small").gain("small-ubatch"))
    assert run("default").best > 0.9 * predicted


def test_following_the_advised_split_gains_what_was_predicted(
    fakes: Fakes, run: Run, tmp_path_factory: pytest.TempPathFactory
) -> None:
    uneven = run("uneven")
    advised = uneven.analysis.recommendation
    assert advised.words is not None
    then = bench(fakes, tmp_path_factory.mktemp("advised"), *advised.words.split())
    # THEN llama.cpp's own rounding gives the devices exactly the advised layers
    assert then.analysis.trace.run.partition == advised.partition
    predicted = uneven.best / (1 - uneven.gain("layer-split"))
    assert then.best == pytest.approx(predicted, rel=0.1)


def test_devices_of_different_speed_get_layers_by_their_speed(
    fakes: Fakes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    # GIVEN a second device that takes twice as long: of 8 layers 5 or 6 balance
    mixed = bench(fakes, tmp_path_factory.mktemp("mixed"), "-ts", "4/5", node_us=(200, 400))
    advised = mixed.analysis.recommendation
    assert advised.partition in ((5, 3), (6, 2))
