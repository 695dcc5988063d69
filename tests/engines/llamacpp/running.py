"""Recording real llama.cpp over fake GPUs, which log themselves what they did."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bubblescope.analyzers import intervals as iv
from bubblescope.analyzers.analysis import analyze
from bubblescope.analyzers.results import Analysis
from bubblescope.trace.read import read_trace
from tests.engines.llamacpp.gguf import Shape, write
from tests.engines.serving import ENGINES, ROOT, unless_installed

LLAMACPP = ENGINES / "llamacpp"
#: A prompt takes less than a second where nothing else runs, and longer beside other work.
PATIENCE_SECONDS = 300

installed = unless_installed(LLAMACPP / "bin" / "llama-bench")

LAYERS = 8
SHAPE = Shape(layers=LAYERS)


@dataclass(frozen=True)
class Fakes:
    """What is made once: the library of the fake GPUs, and a model."""

    library: Path
    model: Path

    def environment(self, log: Path, node_us: Sequence[int], **more: str) -> dict[str, str]:
        """node_us: of each device, how long it takes for a node of a graph."""
        return {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "GGML_BACKEND_PATH": str(self.library),
            "FAKE_GPU_NODE_US": ",".join(map(str, node_us)),
            "FAKE_GPU_LOG": str(log),
            **more,
        }


@dataclass(frozen=True)
class Benched:
    """A recorded run of llama-bench: tokens per second of its repetitions, and what was found in it."""

    tokens_per_second: tuple[float, ...]
    analysis: Analysis
    log: Path

    @property
    def best(self) -> float:
        """Of the repetitions the one that was disturbed least."""
        return max(self.tokens_per_second)

    def findings(self) -> set[str]:
        return {each.id for each in self.analysis.findings}

    def gain(self, name: str) -> float:
        """The gain that was predicted with a finding."""
        (gain,) = (each.predicted_gain for each in self.analysis.findings if each.id == name)
        assert gain is not None
        return gain

    def logged_compute_ns(self, device: int) -> int:
        """How long a device computed in the window, by its own log."""
        name = self.analysis.trace.run.devices[device].name
        lines = (line.split() for line in self.log.read_text().splitlines())
        times = np.array(
            [(int(begin), int(end)) for own, what, begin, end in lines if (own, what) == (name, "compute")]
        )
        window = iv.span(*self.analysis.window_ns)
        return iv.total(iv.intersect(iv.union(times[:, 0], times[:, 1]), window))


def make(folder: Path, shape: Shape = SHAPE) -> Fakes:
    """Compile the fake GPUs and write the model."""
    library = folder / "libggml-fake.so"
    source = Path(__file__).with_name("fake_gpu.cpp")
    flags = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-pthread"]
    libraries = [f"-L{LLAMACPP / 'bin'}", "-lggml-base", f"-Wl,-rpath,{LLAMACPP / 'bin'}"]
    command = ["c++", *flags, f"-I{LLAMACPP / 'include'}", str(source), "-o", str(library), *libraries]
    subprocess.run(command, check=True)
    return Fakes(library, write(folder / "model.gguf", shape))


def bench(
    fakes: Fakes, folder: Path, *options: str, node_us: Sequence[int] = (500, 500, 500), **more: str
) -> Benched:
    """Record llama-bench on a prompt of 4096 tokens, five times."""
    names = "/".join(f"FAKE{number}" for number in range(len(node_us)))
    devices = [] if "-dev" in options else ["-dev", names]
    command = [
        str(LLAMACPP / "bin" / "llama-bench"), "-m", str(fakes.model), "-ngl", "99", "-t", "1",
        "-p", "4096", "-n", "0", "-r", "5", "-o", "jsonl", *devices, *options,
    ]  # fmt: skip
    trace, log = folder / "trace.json", folder / "log"
    done = subprocess.run(
        [sys.executable, "-m", "bubblescope", "record", "-o", str(trace), "--", *command],
        env=fakes.environment(log, node_us, **more), cwd=folder, capture_output=True, text=True,
        timeout=PATIENCE_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    samples = json.loads(done.stdout.splitlines()[-1])["samples_ts"]
    return Benched(tuple(samples), analyze(read_trace(trace)), log)


def server(fakes: Fakes, port: int, *options: str) -> list[str]:
    """The command of a llama-server with one slot of 4096 tokens."""
    return [
        str(LLAMACPP / "bin" / "llama-server"), "-m", str(fakes.model), "--port", str(port), "-ngl", "99",
        "-np", "1", "-c", "4096", "-t", "1", "-dev", "FAKE0,FAKE1,FAKE2", *options,
    ]  # fmt: skip


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def serve(
    fakes: Fakes, folder: Path, *options: str, prompt: int, requests: int, node_us: Sequence[int]
) -> Analysis:
    """Record a llama-server on prompts that differ, after one to warm up."""
    load = ["--prompt-tokens", str(prompt), "--requests", str(requests)]
    command = server(fakes, free_port(), *options)
    done = subprocess.run(
        [sys.executable, "-m", "bubblescope", "record", "-o", "t.json", *load, "--", *command],
        env=fakes.environment(folder / "log", node_us), cwd=folder, capture_output=True, text=True,
        timeout=PATIENCE_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return analyze(read_trace(folder / "t.json"))
