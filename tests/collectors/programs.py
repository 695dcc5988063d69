"""Small real programs that record, as an engine would: other processes, other interpreters."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

from bubblescope.record.spool import Process, read_spool

COLLECTORS = Path(__file__).parents[2] / "collectors"
PRELUDE = "import os, signal, sys, threading, time\nimport _bubblescope_inject as recorder\n"


def run_program(code: str, spool: Path | None, **environment: str | int) -> subprocess.CompletedProcess[str]:
    """Run code with the collectors on its path; it records into `spool`, nowhere if that is None."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("BUBBLESCOPE_")}
    return subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(code)],
        env={
            **inherited,
            "PYTHONPATH": str(COLLECTORS),
            **({"BUBBLESCOPE_SPOOL": str(spool)} if spool is not None else {}),
            **{name: str(value) for name, value in environment.items()},
        },
        capture_output=True,
        text=True,
        timeout=120,
    )


def processes_of(spool: Path) -> list[Process]:
    processes, unreadable = read_spool(str(spool))
    assert unreadable == []
    return processes


def recorded(code: str, spool: Path, **environment: str | int) -> Process:
    """The one process that records when this code runs to its end."""
    done = run_program(code, spool, **environment)
    assert (done.returncode, done.stderr) == (0, "")
    (process,) = processes_of(spool)
    return process
