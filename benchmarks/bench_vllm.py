"""What recording costs: times to first token of a vLLM server with and without it, in turn.

    python benchmarks/bench_vllm.py [--starts 3] [--requests 10] [--prompt-tokens 32000] \\
        -- vllm serve MODEL --pipeline-parallel-size 2 --port 8000 ...

Each start of the server is one observation, the mean of its requests: requests of one start are
more alike than starts are. Without a command nothing is measured.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from bubblescope.load.drive import Measured, drive
from bubblescope.load.plan import Load, url_of

#: Student's t for 95 %, two sided, by degrees of freedom.
T95 = {2: 4.303, 4: 2.776, 6: 2.447, 8: 2.306, 10: 2.228, 14: 2.145, 18: 2.101}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--requests", type=int, default=10)
    parser.add_argument("--prompt-tokens", type=int, default=32_000)
    parser.add_argument("command", nargs="*")
    wanted = parser.parse_args()
    if not wanted.command:
        print("no command given; see the head of this file")
        return
    load = Load(url_of(wanted.command, "vllm"), wanted.prompt_tokens, wanted.requests)
    means: dict[str, list[float]] = {"plain": [], "recorded": []}
    for start in range(wanted.starts):
        for arm in sorted(means, reverse=bool(start % 2)):
            ttfts = [answer.ttft_ns / 1e6 for answer in _started(arm, wanted.command, load).answers]
            means[arm].append(statistics.fmean(ttfts))
            print(f"start {start + 1} {arm}: {', '.join(f'{ttft:.1f}' for ttft in ttfts)} ms", flush=True)
    print(summary(means["plain"], means["recorded"]))


def summary(plain: Sequence[float], recorded: Sequence[float]) -> str:
    """The difference of the means and its 95 % interval, as a share of the plain mean."""
    starts = len(plain)
    base = statistics.fmean(plain)
    difference = statistics.fmean(recorded) - base
    spread = (statistics.variance(plain) + statistics.variance(recorded)) / starts
    half = T95[2 * starts - 2] * spread**0.5
    return (
        f"{starts} starts per arm: plain {base:.2f} ms, recorded {base + difference:.2f} ms, difference "
        f"{difference / base:+.2%}, 95 % interval {(difference - half) / base:+.2%} to "
        f"{(difference + half) / base:+.2%}"
    )


def _started(arm: str, command: Sequence[str], load: Load) -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        recorder = [
            sys.executable,
            "-m",
            "bubblescope",
            "record",
            "-o",
            str(Path(folder) / "trace.json"),
            "--",
        ]
        log = open(os.environ.get("BENCH_VLLM_LOG", os.devnull), "ab")  # noqa: SIM115 - the server's
        server = subprocess.Popen(
            [*recorder, *command] if arm == "recorded" else command, stdout=log, stderr=log
        )
        try:
            return drive(load, lambda _: None, lambda *_: None, threading.Event())
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(120)


if __name__ == "__main__":
    main()
