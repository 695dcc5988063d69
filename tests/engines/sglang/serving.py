"""Recording a real SGLang server on CPUs, with a small model and a stand-in for its kernels."""

from __future__ import annotations

from pathlib import Path

from tests.engines import serving
from tests.engines.serving import ENGINES, ROOT, Recorded, binding, free_port, unless_installed

PYTHON = ENGINES / "sglang" / "bin" / "python"
VERSION = "0.5.21"

installed = unless_installed(PYTHON)

HERE = Path(__file__).parent


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
    serving.prepare(folder, "sglang.srt.plugins", HERE / "tamper.py")


def environment(folder: Path, stages: int = 2, **more: str) -> dict[str, str]:
    return serving.environment(
        [ROOT, HERE / "stub", folder / "plugins"],
        OMP_NUM_THREADS="1",
        SGLANG_USE_CPU_ENGINE="1",
        SGLANG_CPU_OMP_THREADS_BIND=binding(stages),
        **more,
    )


def record(folder: Path, load: list[str], server: list[str], stages: int = 2, **more: str) -> Recorded:
    """Record a server driven by a load, to its end."""
    return serving.record(folder, load, server, environment(folder, stages, **more))
