"""The benchmark of recorded servers: it asks those it says it asks, and compares them as it says."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.load.test_drive import SERVER, free_port

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "bench_server.py"
_spec = importlib.util.spec_from_file_location("bench_server", SCRIPT)
assert _spec is not None and _spec.loader is not None
bench = importlib.util.module_from_spec(_spec)
sys.modules["bench_server"] = bench  # where dataclasses look for it
_spec.loader.exec_module(bench)


def test_the_difference_has_the_interval_of_its_starts() -> None:
    # Means 100 and 101; variances 1 and 1, so the standard error is sqrt(2 / 3) = 0.8165, and
    # Student's t of 4 degrees of freedom is 2.776: 1 -+ 2.27.
    assert bench.summary("plain", [99, 100, 101], "stages", [100, 101, 102]) == (
        "stages: 101.00 ms, plain: 100.00 ms, difference +1.00%, 95 % interval -1.27% to +3.27%, "
        "3 starts per arm"
    )


def test_one_start_has_no_interval() -> None:
    assert bench.summary("plain", [100], "kernels", [102]).endswith(
        "difference +2.00%, of 1 starts per arm: no interval"
    )


@pytest.mark.parametrize("beside", [(), ("--beside",)])
def test_servers_of_all_arms_are_asked(beside: tuple[str, ...], tmp_path: Path) -> None:
    server = [sys.executable, str(SERVER), "--port", str(free_port())]
    options = ["--arms", "plain,stages", "--starts", "2", "--requests", "3", "--prompt-tokens", "20"]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *options, *beside, "--", *server],
        capture_output=True, text=True, timeout=300, check=True, cwd=tmp_path,
    )  # fmt: skip
    starts = re.findall(r"^start (\d) (\w+): (.*) ms; ended in ", done.stdout, re.MULTILINE)
    assert [(start, arm) for start, arm, _ in starts] == [
        ("1", "plain"), ("1", "stages"), ("2", "stages"), ("2", "plain")
    ]  # fmt: skip
    assert all(len(times.split(", ")) == 3 for _, _, times in starts)
    assert re.search(r"^stages: .* 95 % interval .* 2 starts per arm$", done.stdout, re.MULTILINE)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--starts", "0", "--", "ls", "--port", "1"), "--starts and --requests are at least 1"),
        (("--", "no-such-program", "--port", "1"), "there is no program no-such-program"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_one_line(words: tuple[str, ...], why: str) -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith(why)
