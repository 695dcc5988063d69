"""Recording a real vLLM server on CPUs with a small model."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from bubblescope.trace.model import Trace
from bubblescope.trace.read import read_trace
from tests.engines.model import qwen3

ROOT = Path(__file__).parents[3]
ENGINES = Path(os.environ.get("BUBBLESCOPE_ENGINES") or Path.home() / ".cache" / "bubblescope" / "engines")
VLLM = ENGINES / "vllm" / "bin" / "vllm"
#: Older versions, each a folder that is put first on PYTHONPATH.
OLDER = {version: ENGINES / "vllm" / "older" / version for version in ("0.28.0", "0.31.0")}
#: A start takes half a minute where nothing else runs, and much longer beside other work.
PATIENCE_SECONDS = 900

#: With CI set the tests insist on the engine instead of doing without.
installed = pytest.mark.skipif(
    not VLLM.exists() and "CI" not in os.environ, reason=f"{VLLM} is not there; `make engines` installs it"
)

TAMPER = Path(__file__).with_name("tamper.py")
_ENTRY_POINTS = "[vllm.general_plugins]\ntamper = tamper:register\n"


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


def command(folder: Path, *options: str, stages: int = 2) -> list[str]:
    """A vLLM server of a small model, in as many stages, eager unless the options say otherwise."""
    return [
        str(VLLM), "serve", str(folder / "model"), "--load-format", "dummy", "--host", "127.0.0.1",
        "--port", str(free_port()), "--pipeline-parallel-size", str(stages), "--max-model-len", "8192",
        "--max-num-batched-tokens", "256", "--max-num-seqs", "8", "--kv-cache-memory-bytes", "268435456",
        "--gpu-memory-utilization", "0.12", "--no-enable-prefix-caching", *(options or ("--enforce-eager",)),
    ]  # fmt: skip


def prepare(folder: Path) -> None:
    """Put the model and the tampering plugin into a folder."""
    qwen3(folder / "model", hidden_size=512)
    metadata = folder / "plugins" / "tamper-1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: tamper\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(_ENTRY_POINTS)
    shutil.copy(TAMPER, folder / "plugins")


def environment(folder: Path, stages: int = 2, version: str = "", **more: str) -> dict[str, str]:
    """Of a server of the installed vLLM, or of an older version."""
    older = (str(OLDER[version]),) if version else ()
    cores = sorted(os.sched_getaffinity(0))
    binding = "|".join(str(cores[stage * len(cores) // stages]) for stage in range(stages))
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((*older, str(ROOT), str(folder / "plugins"))),
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CPU_CI_ENV": "0",
        "VLLM_CPU_OMP_THREADS_BIND": binding,
        "VLLM_CACHE_ROOT": str(folder / "cache"),
        **more,
    }


def record(
    folder: Path, load: list[str], server: list[str], stages: int = 2, version: str = "", **more: str
) -> Recorded:
    """Record a server driven by a load, to its end; `version` is that of an older vLLM."""
    trace = folder / "trace.json"
    done = subprocess.run(
        [sys.executable, "-m", "bubblescope", "record", "-o", str(trace), *load, "--", *server],
        env=environment(folder, stages, version, **more), cwd=folder, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=PATIENCE_SECONDS,
    )  # fmt: skip
    return Recorded(done.returncode, done.stdout, trace)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
