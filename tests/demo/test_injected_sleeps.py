"""A sleep of known length in the embedded engine is found where it was put, and blamed on who slept."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from bubblescope.analyzers.analysis import analyze
from bubblescope.analyzers.results import Analysis, Options
from bubblescope.record.assemble import traces_of
from bubblescope.record.join import join

#: The engine, in which some functions sleep once: the one of this name, of this stage, at this call.
ENGINE = """
import json, sys, time
import bubblescope.demo.channel as channel
import bubblescope.demo.schedule as schedule
from bubblescope.demo.model import Part

SECONDS = 1.0

def sleep_once(place, name, stage, call, key):
    function = getattr(place, name)
    calls = []
    def slow(*arguments):
        first = arguments[0]
        here = stage if not isinstance(first, Part) else 0 if hasattr(first, "_embedding") else 1
        if here == stage:
            calls.append(1)
            if len(calls) == call + 1:
                begin = time.monotonic_ns()
                time.sleep(SECONDS)
                with open(f"slept-{key}.json", "w") as file:
                    json.dump([begin, time.monotonic_ns()], file)
        return function(*arguments)
    setattr(place, name, slow)

PLACES = {"schedule": (schedule, "next_chunk"), "embed": (Part, "embed"), "forward": (Part, "forward"),
          "send": (channel, "send_activations"), "receive": (channel, "receive_activations")}
for key, stage, call in SLEEPS:
    sleep_once(*PLACES[key], stage, call, key)

if __name__ == "__main__":
    from bubblescope.demo.__main__ import main
    sys.exit(main())
"""


Found = Callable[[str], Analysis]


def run(folder: Path, partition: str, sleeps: list[tuple[str, int, int]]) -> Found:
    """Run the engine with sleeps (function, stage, its how manyth call), well apart from each other;
    returns what is found in the time of each of them."""
    spool = folder / "spool"
    spool.mkdir()
    (folder / "engine.py").write_text(f"SLEEPS = {sleeps!r}\n{ENGINE}")
    subprocess.run(
        [sys.executable, "engine.py"],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "BUBBLESCOPE_SPOOL": str(spool),
            "BUBBLESCOPE_DEMO_PARTITION": partition,
            # A stage is one core here, too, though the engine's main module is not the one that says so.
            "OPENBLAS_NUM_THREADS": "1",
        },
        capture_output=True,
        timeout=300,
        check=True,
    )
    trace = join(traces_of(str(spool)))

    def found(key: str) -> Analysis:
        begin, end = map(int, (folder / f"slept-{key}.json").read_text().strip("[]").split(","))
        return analyze(trace, Options(window_ns=(begin, end)))

    return found


@pytest.fixture(scope="module")
def slow_first(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """The last stage waits for the first one, which sleeps."""
    folder = tmp_path_factory.mktemp("slow-first")
    return run(folder, "10,2", [("schedule", 0, 4), ("embed", 0, 6), ("forward", 0, 8), ("send", 0, 12)])


@pytest.fixture(scope="module")
def slow_last(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """The first stage waits for the last one, which sleeps."""
    folder = tmp_path_factory.mktemp("slow-last")
    return run(folder, "2,10", [("forward", 1, 5), ("receive", 1, 7)])


def states(analysis: Analysis, stage: int) -> Mapping[str, int]:
    return analysis.stages[stage].states_ns


def length(analysis: Analysis) -> int:
    begin, end = analysis.window_ns
    assert end - begin >= 1_000_000_000
    return end - begin


def waits(analysis: Analysis, stage: int) -> dict[tuple[int, str], int]:
    """How long a stage waited, by culprit and cause."""
    rows = analysis.blame[analysis.blame["waiting_stage"] == stage]
    return {(row.culprit_stage, row.cause): row.ns for row in rows.itertuples()}


@pytest.mark.parametrize(
    ("slept", "state", "cause"),
    [("schedule", "host", "host"), ("embed", "compute", "compute"), ("forward", "compute", "compute")],
)
def test_a_sleep_of_the_first_stage(slow_first: Found, slept: str, state: str, cause: str) -> None:
    analysis = slow_first(slept)
    # THEN it is that state of the stage that slept
    assert states(analysis, 0)[state] >= 0.95 * length(analysis)
    # AND the other one starves but for what it had to finish, for that reason
    expected = length(analysis) - states(analysis, 1)["compute"]
    assert states(analysis, 1)["starved"] >= 0.95 * expected > 0.5 * length(analysis)
    assert waits(analysis, 1)[0, cause] >= 0.95 * expected


def test_a_sleep_of_the_last_stage_blocks_the_first(slow_last: Found) -> None:
    analysis = slow_last("forward")
    assert states(analysis, 1)["compute"] >= 0.95 * length(analysis)
    expected = length(analysis) - states(analysis, 0)["compute"]
    assert states(analysis, 0)["blocked"] >= 0.95 * expected > 0.5 * length(analysis)
    assert waits(analysis, 0)[1, "compute"] >= 0.95 * expected


def test_a_sleep_in_the_middle_of_a_message_is_a_slow_link(slow_first: Found, slow_last: Found) -> None:
    for analysis in (slow_first("send"), slow_last("receive")):
        for stage in (0, 1):
            assert states(analysis, stage)["transfer"] >= 0.95 * length(analysis)
        assert sum(sum(waits(analysis, stage).values()) for stage in (0, 1)) <= 0.05 * length(analysis)
