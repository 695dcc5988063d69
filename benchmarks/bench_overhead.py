"""What recording costs: one event, and the embedded engine's time to first token.

One engine under `bubblescope record` answers requests of one size. Its stages record some of them and
not others: of every two one, in an order drawn by lot. So both kinds are the same work, in the same
processes, in the same second, and what the machine does meanwhile counts for both. Each two give one
difference. `--pairs N` for more of them.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
TOKENS = 512
#: The engine's first requests are not counted.
WARM_UP = 4
RESAMPLES = 4000
#: Tells the stages, which are processes of their own, how many pairs of requests there are.
PAIRS_VARIABLE = "BENCH_OVERHEAD_PAIRS"

#: A whole span against what a collector would do that writes a line of JSON at each end, in a loop; and
#: a span where an engine has it, between products of matrices that fill the caches, against no span there.
EVENT = """
import json, os, statistics, time, timeit
import numpy
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
def nothing():
    pass
left, right = numpy.ones((256, 2048), numpy.float32), numpy.ones((2048, 6144), numpy.float32)
def after_a_product(what):
    left @ right
    begin = time.perf_counter_ns()
    what()
    return time.perf_counter_ns() - begin
number = 20_000
span_ns, lines_ns = (min(timeit.repeat(f, number=number, repeat=9)) / number * 1e9 for f in (span, lines))
times = [(after_a_product(span), after_a_product(nothing)) for _ in range(100)]
print(span_ns, lines_ns, *map(statistics.median, zip(*times)))
"""


class Served(NamedTuple):
    """Times to first token of all requests, how long all took, and the launcher's CPU time meanwhile."""

    ttft_ns: list[int]
    wall_s: float
    launcher_cpu_s: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=500, help="pairs of requests (500)")
    pairs = parser.parse_args().pairs
    if pairs < 2:
        parser.error("--pairs is at least 2, or nothing tells how sure the figures are")
    with tempfile.TemporaryDirectory() as folder:
        span_ns, lines_ns, cold_ns = event_costs(Path(folder))
        print(f"a span, begin and end: {span_ns:.0f} ns, {span_ns / lines_ns:.2f} of two lines of JSON")
        print(f"after a product of large matrices: {cold_ns:.0f} ns")
        served, spans = recorded(Path(folder), pairs)
    without, with_it = by_kind(served.ttft_ns, plan(pairs))
    both = list(zip(without, with_it, strict=True))
    usual_ns, spans_of_one = statistics.median(without), spans / (pairs + WARM_UP)
    warm, cold = (spans_of_one * ns / usual_ns for ns in (span_ns, cold_ns))
    print(
        f"a request: {usual_ns / 1e6:.1f} ms to its first token, {spans_of_one:.0f} spans: {warm:.3%} of it; "
        f"{cold:.2%} with all of them after such a product"
    )
    print(f"time to first token with recording, {pairs} pairs of requests:")
    print(f"  mean   {interval(both, of_means)}")
    print(f"  median {interval(both, of_median)}")
    share = served.launcher_cpu_s / served.wall_s
    print(f"the launcher meanwhile: {served.launcher_cpu_s:.2f} s on a CPU, {share:.3%} of one")


def plan(pairs: int) -> list[bool]:
    """Which requests are recorded: the first ones, then of every two one."""
    lot = random.Random(2026)
    drawn = [lot.random() < 0.5 for _ in range(pairs)]
    return [True] * WARM_UP + [recorded for first in drawn for recorded in (first, not first)]


def by_kind(ttft_ns: Sequence[int], recorded: Sequence[bool]) -> tuple[list[int], list[int]]:
    """The times of the requests that were not recorded, and of their partners that were."""
    counted = list(zip(ttft_ns, recorded, strict=True))[WARM_UP:]
    return [ns for ns, on in counted if not on], [ns for ns, on in counted if on]


def of_means(pairs: Sequence[tuple[int, int]]) -> float:
    """How much more the recorded requests took on average. Pairs: without, with.

    Not the mean of the pairs' own shares, which is above nought by the variance of the noise even where
    both are alike: of 80 against 100 and 100 against 80 it is +2.5 %.
    """
    return sum(on for _, on in pairs) / sum(off for off, _ in pairs) - 1


def of_median(pairs: Sequence[tuple[int, int]]) -> float:
    """How much more the recorded request took in the pair in the middle."""
    return statistics.median(on / off for off, on in pairs) - 1


def interval(pairs: Sequence[tuple[int, int]], of: Callable[[Sequence[tuple[int, int]]], float]) -> str:
    """A figure of the pairs and its 95 % interval, by drawing as many of them again and again."""
    lot = random.Random(2026)
    drawn = sorted(of(lot.choices(pairs, k=len(pairs))) for _ in range(RESAMPLES))
    low, high = drawn[math.floor(0.025 * RESAMPLES)], drawn[math.ceil(0.975 * RESAMPLES) - 1]
    return f"{of(pairs):+.2%}, 95 % interval {low:+.2%} to {high:+.2%}"


def event_costs(folder: Path) -> tuple[float, float, float]:
    """Nanoseconds of a span, of the same as two lines of JSON, and of a span after a matrix product."""
    spool = folder / "spool"
    spool.mkdir()
    told = subprocess.run(
        [sys.executable, "-c", EVENT],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "collectors"),
            "BUBBLESCOPE_SPOOL": str(spool),
            "LINES": str(folder / "lines"),
            "OPENBLAS_NUM_THREADS": "1",
        },
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    span_ns, lines_ns, cold_ns, nothing_ns = map(float, told.stdout.split())
    return span_ns, lines_ns, cold_ns - nothing_ns


def recorded(folder: Path, pairs: int) -> tuple[Served, int]:
    """Run the engine under the launcher; what it answered, and how many spans were recorded."""
    told, trace = folder / "served.json", folder / "trace.json.gz"
    program = [sys.executable, "-m", "bubblescope"]
    engine = [sys.executable, str(Path(__file__).resolve()), str(told)]
    subprocess.run(
        [*program, "record", "-o", str(trace), "--", *engine],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
            PAIRS_VARIABLE: str(pairs),
            "OPENBLAS_NUM_THREADS": "1",
        },
        stderr=subprocess.PIPE,
        check=True,
    )
    from bubblescope.trace.read import read_trace

    return Served(**json.loads(told.read_text())), len(read_trace(trace).spans)


def serve(told: Path) -> None:
    """As the engine's main process: answer all requests, and tell how long they took."""
    from bubblescope.demo.engine import serve

    launcher = os.getppid()
    answers = serve((10, 2), [TOKENS] * len(plan(int(os.environ[PAIRS_VARIABLE]))))
    first = next(answers)
    begin, begin_cpu = time.monotonic(), others_cpu_s(launcher)
    ttft_ns = [first.ttft_ns, *(answer.ttft_ns for answer in answers)]
    served = Served(ttft_ns, time.monotonic() - begin, others_cpu_s(launcher) - begin_cpu)
    told.write_text(json.dumps(served._asdict()))


def others_cpu_s(launcher: int) -> float:
    """Seconds on a CPU of the launcher and of all that it started, without this process."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        pid, parent = int(stat.parent.name), int(fields[1])
        if pid == launcher or (parent == launcher and pid != os.getpid()):
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def record_as_planned() -> None:
    """In a stage: record what belongs to some of the requests, and nothing of the others.

    A request that is not to be recorded finds the process as it is without `bubblescope record`.
    """
    from bubblescope.collectors._bubblescope_inject import recording
    from bubblescope.collectors._bubblescope_inject.spans import Span, Stage
    from bubblescope.demo.schedule import CHUNK_TOKENS

    records = plan(int(os.environ[PAIRS_VARIABLE]))
    chunks = TOKENS // CHUNK_TOKENS
    writer, plain = recording.writer, Stage.span

    def span(stage: Stage, kind: str, *, microbatch: int, **told: object) -> Span:
        recording.writer = writer if records[microbatch // chunks] else None
        return plain(stage, kind, microbatch=microbatch, **told)

    Stage.span = span


if __name__ == "__main__":
    if PAIRS_VARIABLE in os.environ:
        serve(Path(sys.argv[1]))
    else:
        main()
elif __name__ == "__mp_main__":
    record_as_planned()
