"""What recording costs: one event, and the embedded engine's time to first token and CPU seconds.

The engine runs with and without recording in turn, so that a machine that grows slower or faster
meanwhile counts for both; each pair gives one ratio. `--pairs N` for more of them. On a machine
that does other work too, the CPU seconds tell more than the times.
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
from typing import NamedTuple

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


class Run(NamedTuple):
    """Seconds to the first tokens of all measured requests, seconds of CPU, and spans recorded."""

    prefill: float
    cpu: float
    spans: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=8, help="pairs of runs of the engine (8)")
    with tempfile.TemporaryDirectory() as folder:
        span_ns, lines_ns = event_costs(Path(folder))
        print(f"a span, begin and end: {span_ns:.0f} ns, {span_ns / lines_ns:.2f} of two lines of JSON")
        pairs = []
        for number in range(parser.parse_args().pairs):
            first = number % 2 == 1
            runs = {recorded: run(Path(folder), recorded) for recorded in (first, not first)}
            pairs.append((runs[False], runs[True]))
            print(f"pair {number + 1}: without {shown(runs[False])}, with recording {shown(runs[True])}")
    spans, cpu = pairs[-1][1].spans, pairs[-1][1].cpu
    print(f"the {spans} spans of a run alone: {spans * span_ns / 1e9 / cpu:.3%} of its CPU seconds")
    print("time to first token:", interval([b.prefill / a.prefill - 1 for a, b in pairs]))
    print("CPU seconds:", interval([b.cpu / a.cpu - 1 for a, b in pairs]))


def shown(run: Run) -> str:
    return f"{run.prefill:.3f} s ({run.cpu:.2f} s of CPU)"


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


def run(folder: Path, recorded: bool) -> Run:
    """Run the engine once; the launcher's own work is not counted."""
    engine = ["sh", "-c", '"$0" -m bubblescope.demo; times >&2', sys.executable]
    record = [sys.executable, "-m", "bubblescope", "record", "--force", "-o", str(folder / "t.json.gz"), "--"]
    told = subprocess.run(
        [*(record if recorded else []), *engine],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=True,
    )
    ttft = {int(number): int(ms) for number, ms in re.findall(r"request (\d+): TTFT (\d+) ms", told.stderr)}
    of_children = [line for line in told.stderr.splitlines() if re.fullmatch(r"\d+m\S+s \d+m\S+s", line)][-1]
    cpu = sum(int(m) * 60 + float(s) for m, s in re.findall(r"(\d+)m([\d.]+)s", of_children))
    spans = re.search(r"bubblescope: (\d+) spans", told.stderr)
    prefill = sum(ms for number, ms in ttft.items() if number > 0) / 1000
    return Run(prefill, cpu, int(spans[1]) if spans else 0)


def interval(overheads: list[float]) -> str:
    """Mean overhead and its 95 % interval in words."""
    count = len(overheads)
    mean = statistics.fmean(overheads)
    if count < 2:
        return f"{mean:+.2%}, from one pair"
    t = T_95[max(degrees for degrees in T_95 if degrees < count)]
    half = t * statistics.stdev(overheads) / math.sqrt(count)
    return f"{mean:+.2%}, 95 % interval {mean - half:+.2%} to {mean + half:+.2%}, {count} pairs"


if __name__ == "__main__":
    main()
