"""The settings of llama-bench are told as its user gave them, though it takes its own command line apart."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bubblescope.trace.read import read_trace
from tests.collectors.ggml.running import Programs, compiled, environment
from tests.engines.llamacpp.running import LLAMACPP, installed
from tests.record.commands import ROOT

pytestmark = installed


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    return compiled(tmp_path_factory.mktemp("programs"))


def record(programs: Programs, folder: Path, options: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Record llama-bench on a short prompt, once."""
    bench = [str(LLAMACPP / "bin" / "llama-bench"), "-m", str(programs.model)]
    load = ["-p", "64", "-n", "0", "-r", "1", *options.split()]
    return subprocess.run(
        [sys.executable, "-m", "bubblescope", "record", "-o", "trace.json", "--", *bench, *load],
        cwd=folder,
        env=environment(programs, PYTHONPATH=ROOT, **more),
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(
    ("options", "expected", "lacks"),
    [
        ("-ot token_embd.weight=FAKE0", {"ot": "token_embd.weight=FAKE0"}, ["ot"]),
        ("-nkvo 1", {"nkvo": True}, ["nkvo"]),
        ("-nkvo 0 -ts 1/1/1", {"ts": "1/1/1"}, []),
    ],
)
def test_flags_are_told(
    programs: Programs, tmp_path: Path, options: str, expected: dict[str, object], lacks: list[str]
) -> None:
    done = record(programs, tmp_path, options, LLAMA_GRAPH_REUSE_DISABLE="1")
    assert done.returncode == 0, done.stderr[-2000:]
    facts = read_trace(tmp_path / "trace.json").run.facts
    assert facts["llama_flags"] == {**expected, "LLAMA_GRAPH_REUSE_DISABLE": "1"}
    assert facts["llama_pipelining_lacks"] == lacks


def test_on_the_cpu_alone_there_is_nothing_to_record_and_it_is_said(
    programs: Programs, tmp_path: Path
) -> None:
    done = record(programs, tmp_path, "-dev none")
    assert done.returncode == 0
    assert done.stderr.splitlines()[-1] == (
        "bubblescope: nothing was recorded: llama.cpp computed on the CPU alone, which is no stage of a "
        "pipeline; -ngl gives layers to devices"
    )
