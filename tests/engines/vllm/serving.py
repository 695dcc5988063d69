"""Recording a real vLLM server on CPUs with a small model."""

from __future__ import annotations

from pathlib import Path

from tests.engines import serving
from tests.engines.serving import ENGINES, ROOT, Recorded, binding, free_port, unless_installed

VLLM = ENGINES / "vllm" / "bin" / "vllm"
#: Older versions, each a folder that is put first on PYTHONPATH.
OLDER = {version: ENGINES / "vllm" / "older" / version for version in ("0.28.0", "0.31.0")}

installed = unless_installed(VLLM)


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
    serving.prepare(folder, "vllm.general_plugins", Path(__file__).with_name("tamper.py"))


def environment(folder: Path, stages: int = 2, version: str = "", **more: str) -> dict[str, str]:
    """Of a server of the installed vLLM, or of an older version."""
    older = [OLDER[version]] if version else []
    return serving.environment(
        [*older, ROOT, folder / "plugins"],
        VLLM_NO_USAGE_STATS="1",
        VLLM_CPU_CI_ENV="0",
        VLLM_CPU_OMP_THREADS_BIND=binding(stages),
        VLLM_CACHE_ROOT=str(folder / "cache"),
        **more,
    )


def record(
    folder: Path, load: list[str], server: list[str], stages: int = 2, version: str = "", **more: str
) -> Recorded:
    """Record a server driven by a load, to its end; `version` is that of an older vLLM."""
    return serving.record(folder, load, server, environment(folder, stages, version, **more))
