"""How long reading a big trace takes, and how much memory, beside a bare decode and beside HTA.

    python benchmarks/bench_read.py [TRACE]

Repeats the events of a real trace (one file, gzipped or not) with shifted times until there are two
million, and reads that file in a process of its own each time. HolisticTraceAnalysis is installed
into an environment of its own at the first run. Then reads 1, 2, 5 and 10 million events.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = ROOT / "sample_traces" / "h200x2_uneven" / "kineto_rank0.json.gz"
HTA = Path.home() / ".cache" / "bubblescope" / "bench-hta"
#: HTA 0.5 fails on such a trace with pandas 3.
HTA_PACKAGES = ("HolisticTraceAnalysis", "pandas<3")

EVENTS = 2_000_000
SERIES = (1_000_000, 2_000_000, 5_000_000, 10_000_000)
SAMPLING_S = 0.01
REPEATS = 3

BARE = """
import sys, msgspec
class Event(msgspec.Struct, gc=False):
    ph: str | None = None
    cat: str | None = None
    name: str | None = None
    pid: int | str | None = None
    tid: int | str | None = None
    ts: float | None = None
    dur: float | None = None
class Document(msgspec.Struct, gc=False):
    traceEvents: list[Event]
with open(sys.argv[1], "rb") as file:
    text = file.read()
msgspec.json.decode(text, type=Document)
"""
OURS = """
import sys
from bubblescope.trace.read import read_trace
read_trace(sys.argv[1])
"""
THEIRS = """
import sys
from hta.common.trace import Trace
Trace(trace_files={0: sys.argv[1]}, trace_dir="").parse_traces(use_multiprocessing=False)
"""


@dataclass(frozen=True)
class Cost:
    """Seconds on the clock and on the processor, and the peak memory of a process and its children.

    The ratios are of the processor's seconds: other work on the machine disturbs those least.
    """

    wall: float
    processor: float
    megabytes: float


def repeated(sample: Path, path: Path, count: int) -> None:
    """Write a trace of `count` events: those of the sample over and over, each time a span later."""
    packed = sample.read_bytes()
    content = json.loads(gzip.decompress(packed) if packed.startswith(b"\x1f\x8b") else packed)
    events = content.pop("traceEvents")
    timed = [event for event in events if event.get("ph") == "X"]
    span = max(e["ts"] + e.get("dur", 0) for e in timed) - min(e["ts"] for e in timed) + 1000
    pieces = [_pieces(event) for event in events]
    with path.open("w") as file:
        file.write(json.dumps(content, separators=(",", ":"))[:-1] + ',"traceEvents":[')
        for number in range(count):
            before, ts_ns, after = pieces[number % len(pieces)]
            ns = ts_ns + number // len(pieces) * int(span * 1000)
            file.write(f"{',' if number else ''}{before}{ns // 1000}.{ns % 1000:03d}{after}")
        file.write("]}")


def _pieces(event: dict[str, Any]) -> tuple[str, int, str]:
    """The text of an event round its time, and the time in nanoseconds."""
    text = json.dumps({**event, "ts": "TS"}, separators=(",", ":"))
    before, _, after = text.partition('"TS"')
    return before, round(event.get("ts", 0) * 1000), after


def cost(python: str, program: str, path: Path) -> Cost:
    """What it costs to run the program on the file."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    begin = time.perf_counter()
    with tempfile.TemporaryFile("w+") as problem:
        process = subprocess.Popen(
            [python, "-c", program, str(path)], env=environment, stdout=subprocess.DEVNULL, stderr=problem
        )
        ended = threading.Event()
        peaks = [0]

        def watch() -> None:
            while not ended.wait(SAMPLING_S):
                peaks.append(sum(map(_proportional_kilobytes, _tree(process.pid))))

        watcher = threading.Thread(target=watch)
        watcher.start()
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        ended.set()
        watcher.join()
        if process.returncode:
            problem.seek(0)
            raise RuntimeError((problem.read().strip().splitlines() or ["no message"])[-1])
    return Cost(wall, usage.ru_utime + usage.ru_stime, max(peaks) / 1024)


def best(python: str, program: str, path: Path) -> Cost:
    """The cheapest of some runs."""
    return min((cost(python, program, path) for _ in range(REPEATS)), key=lambda found: found.processor)


def _tree(pid: int) -> Iterator[int]:
    """A process and its descendants."""
    yield pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return
    for child in children.split():
        yield from _tree(int(child))


def _proportional_kilobytes(pid: int) -> int:
    """The memory of a process, what it shares with others divided among them."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def hta_python() -> str | None:
    """The interpreter of an environment that has HTA; None, with the reason said, where there is none."""
    python = HTA / "bin" / "python"
    if not python.exists():
        print(f"installing HolisticTraceAnalysis into {HTA} ...", flush=True)
        for command in (
            [sys.executable, "-m", "venv", str(HTA)],
            [str(python), "-m", "pip", "install", "-q", *HTA_PACKAGES],
        ):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                print(f"HTA: skipped, {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
                return None
    if subprocess.run([str(python), "-c", "import hta.common.trace"], capture_output=True).returncode:
        print(f"HTA: skipped, the environment {HTA} does not have it; remove it to try again")
        return None
    return str(python)


def compare(sample: Path, folder: Path) -> None:
    """Print the costs of the three readers on two million events."""
    path = folder / "two_million_rank0.json"
    repeated(sample, path, EVENTS)
    print(f"{EVENTS:,} events, {path.stat().st_size / 1e6:.0f} MB of JSON, from {sample.name}")
    bare = best(sys.executable, BARE, path)
    _show("bare msgspec decode", bare, bare)
    _show("read_trace", best(sys.executable, OURS, path), bare)
    python = hta_python()
    if python:
        try:
            _show("HTA", cost(python, THEIRS, path), bare)
        except RuntimeError as error:
            print(f"HTA: skipped, {error}")


def _show(name: str, found: Cost, one: Cost) -> None:
    ratio = found.processor / one.processor
    seconds = f"{found.wall:7.2f} s {found.processor:7.2f} s processor"
    print(f"{name:22} {seconds} {found.megabytes:6.0f} MB {ratio:7.2f} x", flush=True)


def series(sample: Path, folder: Path) -> None:
    """Print what reading costs as the trace grows."""
    first: Cost | None = None
    for count in SERIES:
        path = folder / "series_rank0.json"
        repeated(sample, path, count)
        found = best(sys.executable, OURS, path)
        first = first or found
        _show(f"{count:,} events", found, first)


def main() -> None:
    sample = Path(sys.argv[1]) if len(sys.argv) > 1 else SAMPLE
    with tempfile.TemporaryDirectory(prefix="bubblescope-bench-") as name:
        compare(sample, Path(name))
        series(sample, Path(name))


if __name__ == "__main__":
    main()
