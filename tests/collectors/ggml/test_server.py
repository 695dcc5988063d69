"""llama-server over the fake GPUs, driven and recorded as its users do."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from bubblescope.trace.read import read_trace
from tests.collectors.ggml.running import Programs, compiled, environment
from tests.engines.llamacpp.running import LLAMACPP, installed
from tests.record.commands import ROOT, descendants, wait_until

pytestmark = installed


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    return compiled(tmp_path_factory.mktemp("programs"))


def recording(programs: Programs, folder: Path, *options: str) -> subprocess.Popen[str]:
    """`bubblescope record` of a server on a free port; the trace is to be trace.json."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    record = [sys.executable, "-m", "bubblescope", "record", "-o", "trace.json", *options, "--"]
    server = [str(LLAMACPP / "bin" / "llama-server"), "-m", str(programs.model), "--port", str(port)]
    devices = ["-ngl", "99", "-dev", "FAKE0,FAKE1,FAKE2", "-ub", "256", "-np", "1"]
    variables = {"PYTHONPATH": ROOT, "FAKE_GPU_LOG": folder / "log"}
    return subprocess.Popen(
        [*record, *server, *devices],
        cwd=folder,
        env=environment(programs, **variables),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_driven_server_has_its_requests_and_every_token_of_them(programs: Programs, tmp_path: Path) -> None:
    process = recording(programs, tmp_path, "--prompt-tokens", "1000", "--requests", "2")
    said = process.communicate(timeout=120)[1]
    assert process.returncode == 0, said[-2000:]
    trace = read_trace(tmp_path / "trace.json")
    assert trace.requests["warmup"].tolist() == [True, False, False]
    assert trace.requests["prompt_tokens"].tolist() == [1000] * 3
    assert trace.run.partition == (3, 3, 2)
    # The settings of the command are known, also those by their short names.
    expected = {"ngl": "99", "dev": "FAKE0,FAKE1,FAKE2", "ub": "256", "np": "1"}
    assert trace.run.facts["llama_flags"] == expected
    assert trace.run.window_ns is not None
    begin, end = trace.run.window_ns
    forward = trace.spans[(trace.spans["kind"] == "forward") & trace.spans["begin_ns"].between(begin, end)]
    assert forward.groupby("stage")["tokens"].sum().tolist() == [2000] * 3
    assert forward["prefix"].max() >= 512


def test_a_server_killed_in_the_middle_leaves_a_trace(programs: Programs, tmp_path: Path) -> None:
    process = recording(programs, tmp_path, "--prompt-tokens", "30000")
    log = tmp_path / "log"
    wait_until(lambda: log.exists() and log.read_text().count("FAKE2 compute") >= 5)
    (server,) = (
        pid
        for pid in descendants(process.pid)
        if os.path.basename(os.readlink(f"/proc/{pid}/exe")) == "llama-server"
    )
    os.kill(server, signal.SIGKILL)
    said = process.communicate(timeout=120)[1]
    assert process.returncode == 128 + signal.SIGKILL, said[-2000:]
    trace = read_trace(tmp_path / "trace.json")
    assert {0, 1, 2} <= set(trace.spans.loc[trace.spans["kind"] == "forward", "stage"])
    assert any("forward of microbatch" in lost.why for lost in trace.run.lost)
