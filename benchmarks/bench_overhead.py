"""What recording costs: one event, and the embedded engine's time to first token.

The engine runs with and without recording in turn, so that a machine that grows slower or faster
meanwhile counts for both; each pair gives one ratio. `--pairs N` for more of them.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Of Student's t for 95 % on both sides, by degrees of freedom.
T_95 = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 9: 2.26, 11: 2.20, 15: 2.13, 19: 2.09}

#: A whole span against what a collector would do that writes a line of JSON at each end.
EVENT = """
import json, os, time, timeit
import _bubblescope_inject as recorder
stage = recorder.stage(0, layers=(0, 10))
file = os.open(os.environ["LINES"], os.O_WRONLY | os.O_CREAT)
def span():
    with stage.span("forward", phase="prefill", step=1, microbatch=1, tokens=4096, prefix=8192):
        pass
def lines():
    for end in (False, True):
        line = {"kind": "forward", "phase": "prefill", "step": 1, "microbatch": 1, "tokens": 4096,
                "prefix": 8192, "time_ns": time.monotonic_ns(), "end": end}
        os.write(file, json.dumps(line).encode())
number = 20_000
print(*(min(timeit.repeat(f, number=number, repeat=9)) / number * 1e9 for f in (span, lines)))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=8, help="pairs of runs of the engine (8)")
    pairs = parser.parse_args().pairs
    with tempfile.TemporaryDirectory() as folder:
        span_ns, lines_ns = event_costs(Path(folder))
        print(f"a span, begin and end: {span_ns:.0f} ns, {span_ns / lines_ns:.2f} of two lines of JSON")
        ratios = []
        for pair in range(pairs):
            first = pair % 2 == 1
            seconds = {recorded: prefill(Path(folder), recorded) for recorded in (first, not first)}
            ratios.append(seconds[True] / seconds[False])
            print(f"pair {pair + 1}: {seconds[False]:.3f} s without, {seconds[True]:.3f} s with recording")
    print(interval([ratio - 1 for ratio in ratios]))


def event_costs(folder: Path) -> tuple[float, float]:
    """Nanoseconds of a span, and of the same as two lines of JSON."""
    spool = folder / "spool"
    spool.mkdir()
    told = subprocess.run(
        [sys.executable, "-c", EVENT],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "collectors"),
            "BUBBLESCOPE_SPOOL": str(spool),
            "LINES": str(folder / "lines"),
        },
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    span_ns, lines_ns = map(float, told.stdout.split())
    return span_ns, lines_ns


def prefill(folder: Path, recorded: bool) -> float:
    """Seconds to the first tokens of all measured requests of one run of the engine."""
    record = [
        "-m",
        "bubblescope",
        "record",
        "--force",
        "-o",
        str(folder / "trace.json.gz"),
        "--",
        sys.executable,
    ]
    told = subprocess.run(
        [sys.executable, *(record if recorded else []), "-m", "bubblescope.demo"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=True,
    )
    ttft = {int(number): int(ms) for number, ms in re.findall(r"request (\d+): TTFT (\d+) ms", told.stderr)}
    return sum(ms for number, ms in ttft.items() if number > 0) / 1000


def interval(overheads: list[float]) -> str:
    """Mean and 95 % interval in words."""
    count = len(overheads)
    mean = statistics.fmean(overheads)
    if count < 2:
        return f"overhead on the time to first token: {mean:+.2%}, from one pair"
    t = T_95[max(degrees for degrees in T_95 if degrees < count)]
    half = t * statistics.stdev(overheads) / math.sqrt(count)
    return (
        f"overhead on the time to first token: {mean:+.2%}, "
        f"95 % interval {mean - half:+.2%} to {mean + half:+.2%}, {count} pairs"
    )


if __name__ == "__main__":
    main()
