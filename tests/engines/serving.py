"""Recording a real server on CPUs with a small model: what is the same for every engine."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from bubblescope.analyzers.analysis import analyze
from bubblescope.trace.model import Trace
from bubblescope.trace.read import read_trace
from tests.engines.model import qwen3

ROOT = Path(__file__).parents[2]
ENGINES = Path(os.environ.get("BUBBLESCOPE_ENGINES") or Path.home() / ".cache" / "bubblescope" / "engines")
#: A start takes half a minute where nothing else runs, and much longer beside other work.
PATIENCE_SECONDS = 900
#: Where one microbatch stood still for this share of the window, the machine did something else.
_STALL = 0.1
_TRIES = 3


def unless_installed(program: Path) -> pytest.MarkDecorator:
    """Skips tests of an engine that lacks this program; with CI set they insist on it instead."""
    return pytest.mark.skipif(
        not program.exists() and "CI" not in os.environ,
        reason=f"{program} is not there; `make engines` installs it",
    )


@dataclass(frozen=True)
class Recorded:
    """What came of a recording: how `bubblescope record` ended, what it printed, and the trace."""

    status: int
    output: str
    file: Path

    @property
    def trace(self) -> Trace:
        return read_trace(self.file)

    def said(self) -> list[str]:
        """The lines that bubblescope itself printed."""
        lines = (line.partition("bubblescope: ") for line in self.output.splitlines())
        return [said for before, mark, said in lines if mark and not before]


def prepare(folder: Path, plugins: str, tamper: Path) -> None:
    """Put the model into a folder, and a plugin that tampers; `plugins` names the engine's entry points."""
    qwen3(folder / "model", hidden_size=512)
    metadata = folder / "plugins" / "tamper-1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: tamper\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(f"[{plugins}]\ntamper = tamper:register\n")
    shutil.copy(tamper, folder / "plugins")


def environment(path: Sequence[Path], **more: str) -> dict[str, str]:
    """Of a server that finds its packages in these folders and asks for none from elsewhere."""
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, path)),
        "HF_HUB_OFFLINE": "1",
        **more,
    }


def binding(stages: int) -> str:
    """A core for each stage, as engines take it; several share one where there are too few."""
    cores = sorted(os.sched_getaffinity(0))
    return "|".join(str(cores[stage * len(cores) // stages]) for stage in range(stages))


def record(
    folder: Path, load: Sequence[str], server: Sequence[str], environment: Mapping[str, str]
) -> Recorded:
    """Record a server driven by a load, to its end."""
    trace = folder / "trace.json"
    done = subprocess.run(
        [sys.executable, "-m", "bubblescope", "record", "-o", str(trace), *load, "--", *server],
        env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=PATIENCE_SECONDS,
    )  # fmt: skip
    return Recorded(done.returncode, done.stdout, trace)


def without_stall(recorded: Callable[[], Recorded]) -> Recorded:
    """A recording of which the states tell about the engine; made again if the machine fell into it."""
    for _ in range(_TRIES - 1):
        found = recorded()
        if found.status or not _stalled(found.trace):
            return found
    return recorded()


def _stalled(trace: Trace) -> bool:
    analysis = analyze(trace)
    window = analysis.window_ns[1] - analysis.window_ns[0]
    return any(each.kind == "microbatch" and each.excess_ns > _STALL * window for each in analysis.stragglers)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
