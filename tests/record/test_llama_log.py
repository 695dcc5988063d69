"""What is told by llama.cpp's log of a program that shows nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bubblescope.record.llama_log import facts, lost
from tests.engines.llamacpp.running import LLAMACPP, PATIENCE_SECONDS, Fakes, installed, make

ROOT = Path(__file__).parents[2]
#: Stands for a llama-server with ggml linked into it, and says in its log what that says.
FAKE_SERVER = r"""
#include <stdio.h>
#include <stdlib.h>
int main(void) {
    FILE *log = fopen(getenv("LLAMA_ARG_LOG_FILE"), "w");
    fprintf(log, "0.00.1 D load_tensors: layer   0 assigned to device CUDA0, is_swa = 0\n"
                 "0.00.1 D load_tensors: layer   1 assigned to device CUDA1, is_swa = 0\n"
                 "0.00.1 I llama_context: n_ubatch              = 512\n");
    return fclose(log) | (printf("ggml-backend") < 0);
}
"""


def program(folder: Path, *flags: str) -> Path:
    """A program named llama-server, linked with these flags."""
    source = folder / "fake_server.c"
    source.write_text(FAKE_SERVER)
    made = folder / "llama-server"
    subprocess.run(["cc", str(source), "-o", str(made), *flags], check=True)
    return made


def test_lines_that_say_nothing_tell_nothing() -> None:
    assert facts(["", "main: hello", "layer by layer"]) == {}


def test_a_recording_of_which_only_the_log_was_seen_says_what_it_lacks() -> None:
    (lacks,) = lost({"llama_seen_by": "log"})
    assert "no times on devices" in lacks.why
    assert list(lost({"llama_seen_by": "symbols and tables"})) == []


def test_layers_that_are_not_all_there_are_no_partition() -> None:
    told = facts(["layer   0 assigned to device CUDA0,", "layer   2 assigned to device CUDA1,"])
    assert "partition" not in told


@pytest.fixture(scope="module")
def fakes(tmp_path_factory: pytest.TempPathFactory) -> Fakes:
    return make(tmp_path_factory.mktemp("fakes"))


def logged(fakes: Fakes, folder: Path, *options: str) -> list[str]:
    """What the real llama.cpp logs, of a prompt in two ubatches on three devices."""
    command = [
        str(LLAMACPP / "bin" / "llama-bench"), "-m", str(fakes.model), "-dev", "FAKE0/FAKE1/FAKE2",
        "-ngl", "99", "-p", "1024", "-n", "0", "-r", "1", "-t", "1", "-v", *options,
    ]  # fmt: skip
    environment = fakes.environment(folder / "log", (0, 0, 0), GGML_SCHED_DEBUG="1")
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True
    )
    return done.stderr.splitlines()


@installed
def test_the_log_tells_layers_splits_and_whether_it_pipelines(fakes: Fakes, tmp_path: Path) -> None:
    # GIVEN 5, 2 and 1 of 8 layers and the output layer, and embeddings on the CPU: a split more than devices
    assert facts(logged(fakes, tmp_path, "-ts", "5/2/2")) == {
        "llama_pipelining": True,
        "llama_copies": 4,
        "llama_splits": 4,
        "chunk_tokens": 512,
        "batch_tokens": 1024,
        "partition": [5, 2, 1],
        "llama_layer_devices": ["FAKE0"] * 5 + ["FAKE1"] * 2 + ["FAKE2"],
        "llama_output_device": "FAKE2",
        "llama_seen_by": "log",
    }


@installed
def test_the_log_tells_that_pipelining_is_off(fakes: Fakes, tmp_path: Path) -> None:
    told = facts(logged(fakes, tmp_path, "-ot", "token_embd.weight=FAKE0"))
    assert (told["llama_pipelining"], told["llama_copies"], told["llama_splits"]) == (False, 1, 3)


def test_recording_such_a_program_says_what_it_cannot_know(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bubblescope", "record", "-o", "t.json", "--", str(program(tmp_path, "-s"))],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
    )  # fmt: skip
    assert "only its log can be read" in done.stderr
    assert "no times on devices, no copies" in done.stderr
