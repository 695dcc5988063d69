"""What `record --kernels` costs where it costs most: a loop of kernels that do next to nothing.

    python benchmarks/bench_kernels.py [--launches 50000] [--repeats 5] [--starts 3]

Needs torch with CUDA; elsewhere nothing is measured. Processes with and without the library alternate; of
each the best repetition counts, since a busy machine only ever adds.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping

from bubblescope.record.kernels import injection
from bubblescope.record.spool import read_spool

_LOOP = """
import sys, time, torch
launches, repeats = map(int, sys.argv[1:])
numbers = torch.zeros(64, 64, device="cuda")
for repeat in range(repeats):
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(launches):
        numbers.add_(1.0)
    torch.cuda.synchronize()
    print((time.perf_counter() - begin) / launches * 1e6)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--launches", type=int, default=50_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--starts", type=int, default=3)
    wanted = parser.parse_args()
    if not _has_cuda():
        print("no torch with CUDA here, so nothing is measured")
        return
    injected = injection(os.environ)
    if injected.why_not:
        print(injected.why_not)
        return
    best: dict[str, list[float]] = {"plain": [], "kernels": []}
    for start in range(wanted.starts):
        for arm in sorted(best, reverse=bool(start % 2)):
            with tempfile.TemporaryDirectory() as spool:
                more = {**injected.environment, "BUBBLESCOPE_SPOOL": spool} if arm == "kernels" else {}
                best[arm].append(min(_loop(wanted.launches, wanted.repeats, more)))
                kept = f", {_recorded(spool)} kernels recorded" if more else ""
            print(f"start {start + 1} {arm}: {best[arm][-1]:.2f} µs a launch{kept}", flush=True)
    plain, kernels = (statistics.median(best[arm]) for arm in ("plain", "kernels"))
    more = f"{kernels - plain:+.2f} µs"
    print(f"median of {wanted.starts}: plain {plain:.2f} µs, kernels {kernels:.2f} µs ({more})")


def _has_cuda() -> bool:
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())


def _loop(launches: int, repeats: int, more: Mapping[str, str]) -> list[float]:
    """Microseconds a launch, of each repetition in a process of its own."""
    command = [sys.executable, "-c", _LOOP, str(launches), str(repeats)]
    done = subprocess.run(command, env={**os.environ, **more}, capture_output=True, text=True, check=True)
    return [float(line) for line in done.stdout.split()]


def _recorded(spool: str) -> int:
    processes, _ = read_spool(spool)
    return sum(len(process.activities) for process in processes)


if __name__ == "__main__":
    main()
