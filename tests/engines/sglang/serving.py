"""Recording a real SGLang server on CPUs, with a small model and a stand-in for its kernels."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engines.model import qwen3
from tests.engines.vllm.serving import ENGINES, PATIENCE_SECONDS, ROOT, Recorded, free_port

PYTHON = ENGINES / "sglang" / "bin" / "python"
VERSION = "0.5.21"

#: With CI set the tests insist on the engine instead of doing without.
installed = pytest.mark.skipif(
    not PYTHON.exists() and "CI" not in os.environ,
    reason=f"{PYTHON} is not there; `make engines` installs it",
)

HERE = Path(__file__).parent
_ENTRY_POINTS = "[sglang.srt.plugins]\ntamper = tamper:register\n"


def command(folder: Path, *options: str, stages: int = 2) -> list[str]:
    """An SGLang server of a small model, in as many stages."""
    return [
        str(PYTHON), "-m", "sglang.launch_server", "--model-path", str(folder / "model"), "--load-format",
        "dummy", "--host", "127.0.0.1", "--port", str(free_port()), "--device", "cpu", "--pp-size",
        str(stages), "--attention-backend", "torch_native", "--disable-overlap-schedule",
        "--disable-radix-cache", "--max-total-tokens", "16384", "--context-length", "8192",
        "--chunked-prefill-size", "256", "--skip-server-warmup", *options,
    ]  # fmt: skip


def prepare(folder: Path) -> None:
    """Put the model and the tampering plugin into a folder."""
    qwen3(folder / "model", hidden_size=512)
    metadata = folder / "plugins" / "tamper-1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: tamper\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(_ENTRY_POINTS)
    shutil.copy(HERE / "tamper.py", folder / "plugins")


def environment(folder: Path, stages: int = 2, **more: str) -> dict[str, str]:
    cores = sorted(os.sched_getaffinity(0))
    binding = "|".join(str(cores[stage * len(cores) // stages]) for stage in range(stages))
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(HERE / "stub"), str(folder / "plugins"))),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "SGLANG_USE_CPU_ENGINE": "1",
        "SGLANG_CPU_OMP_THREADS_BIND": binding,
        **more,
    }


def record(folder: Path, load: list[str], server: list[str], stages: int = 2, **more: str) -> Recorded:
    """Record a server driven by a load, to its end."""
    trace = folder / "trace.json"
    done = subprocess.run(
        [sys.executable, "-m", "bubblescope", "record", "-o", str(trace), *load, "--", *server],
        env=environment(folder, stages, **more), cwd=folder, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=PATIENCE_SECONDS,
    )  # fmt: skip
    return Recorded(done.returncode, done.stdout, trace)
