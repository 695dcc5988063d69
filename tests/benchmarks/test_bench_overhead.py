"""The benchmark of recording: it compares what it says it compares."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "bench_overhead.py"
_spec = importlib.util.spec_from_file_location("bench_overhead", SCRIPT)
assert _spec is not None and _spec.loader is not None
bench = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(bench)

#: What the engine tells of a request of two chunks. Stage 0: schedule, embed, forward and send of each,
#: and the wait for the token. Stage 1: recv and forward of each, then head, sample and send.
SPANS = 2 * 4 + 1 + 2 * 2 + 3


def test_of_every_two_requests_one_is_recorded() -> None:
    recorded = bench.plan(50)
    assert all(recorded[: bench.WARM_UP])
    pairs = list(zip(recorded[bench.WARM_UP :: 2], recorded[bench.WARM_UP + 1 :: 2], strict=True))
    assert len(pairs) == 50
    assert set(pairs) == {(True, False), (False, True)}


def test_partners_stand_beside_each_other() -> None:
    warm_up = [1000] * bench.WARM_UP
    recorded = [True] * bench.WARM_UP + [True, False, False, True]
    assert bench.by_kind([*warm_up, 11, 10, 20, 22], recorded) == ([10, 20], [11, 22])


def test_noise_alone_is_no_cost() -> None:
    """Both kinds are alike, so both figures are nought, however much single requests differ."""
    noisy = [(80, 100), (100, 80), (100, 100)]
    assert bench.of_means(noisy) == 0
    assert bench.of_median(noisy) == 0


def test_a_cost_is_what_the_recorded_requests_took_longer() -> None:
    assert bench.of_means([(100, 103), (300, 301)]) == pytest.approx(0.01)
    assert bench.of_median([(100, 103), (300, 301), (100, 101)]) == pytest.approx(0.01)


def test_the_interval_holds_the_figure_and_is_none_where_all_are_alike() -> None:
    assert bench.interval([(100, 101)] * 5, bench.of_means) == "+1.00%, 95 % interval +1.00% to +1.00%"
    # Of the mean: its standard error is 0.01 / sqrt(100) = 0.1 %, so about 0.8 % to 1.2 %.
    told = bench.interval([(100, 100), (100, 102)] * 50, bench.of_means)
    found = [float(n) for n in re.findall(r"([+-]\d+\.\d+)%", told)]
    assert found[0] == 1.0
    assert 0.75 <= found[1] <= 0.85 and 1.15 <= found[2] <= 1.25


def test_it_runs_and_records_what_it_says() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--pairs", "3"], capture_output=True, text=True, timeout=300, check=True
    )
    assert re.search(r"^after a product of large matrices: \d+ ns", done.stdout, re.MULTILINE)
    assert f" {SPANS} spans: " in done.stdout
    assert len(re.findall(r"95 % interval [+-]\d+\.\d+% to [+-]\d+\.\d+%", done.stdout)) == 2
    assert re.search(r"^the launcher meanwhile: \d+\.\d+ s on a CPU", done.stdout, re.MULTILINE)


def test_too_few_pairs_are_refused() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--pairs", "1"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert "--pairs is at least 2" in done.stderr.splitlines()[-1]
