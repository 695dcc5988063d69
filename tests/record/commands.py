"""Running `bubblescope record` on small real programs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

from bubblescope.trace.model import Trace
from bubblescope.trace.read import read_trace
from tests.collectors.programs import PRELUDE

# Whoever runs the tests in the background ignores Ctrl-C, and so would every program started here.
signal.signal(signal.SIGINT, signal.default_int_handler)

BUBBLESCOPE = [sys.executable, "-m", "bubblescope"]
ROOT = Path(__file__).parents[2]

#: An engine in a few lines: stage 0 works on microbatches until it is ended.
ENDLESS = """
stage = recorder.stage(0, rank=0, layers=(0, 4), device="CPU")
print("ready", flush=True)
microbatch = 0
while True:
    with stage.span("forward", microbatch=microbatch, phase="prefill"):
        time.sleep(0.001)
    microbatch += 1
"""
#: 1500 microbatches, more than one file of the spool holds, and then one that never ends; in the
#: middle of that it says "ready".
STUCK = """
stage = recorder.stage(0, rank=0, layers=(0, 4), device="CPU")
for microbatch in range(1501):
    with stage.span("forward", microbatch=microbatch, phase="prefill"):
        time.sleep(0.001)
        if microbatch == 1500:
            print("ready", flush=True)
            time.sleep(600)
"""
#: The same as ENDLESS, for three microbatches.
SHORT = """
stage = recorder.stage(0, rank=0, layers=(0, 4), device="CPU")
for microbatch in range(3):
    with stage.span("forward", microbatch=microbatch, phase="prefill"):
        time.sleep(0.001)
print("done")
"""


def python(code: str) -> list[str]:
    """A command that runs code as an instrumented engine would."""
    return [sys.executable, "-c", PRELUDE + textwrap.dedent(code)]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def bubblescope(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*BUBBLESCOPE, *map(str, arguments)],
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )


def begun(*arguments: str | Path, cwd: Path, says: str = "ready\n") -> subprocess.Popen[str]:
    """Like `bubblescope`, but still running, in a session of its own, with a first line that begins so."""
    process = subprocess.Popen(
        [*BUBBLESCOPE, *map(str, arguments)],
        cwd=cwd,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith(says)
    return process


def wait_until(holds: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def microbatches(trace: Trace | Path) -> list[int]:
    spans = (trace if isinstance(trace, Trace) else read_trace(trace)).spans
    return sorted(spans["microbatch"].tolist())


def descendants(pid: int) -> list[int]:
    """The processes that a process has started, and theirs, by number."""
    found: list[int] = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        found += [int(child), *descendants(int(child))]
    return sorted(found)


def stages_of_the_demo(launcher: int) -> list[int]:
    """The stages of the embedded engine under a launcher, first stage first."""
    return [
        pid for pid in descendants(launcher) if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
