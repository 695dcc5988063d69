"""The command that starts an engine, as people type it."""

from __future__ import annotations

import pytest

from bubblescope.doctor.invocation import Invocation, parse_command
from bubblescope.errors import UsageError


def parsed(line: str, environment: dict[str, str] | None = None) -> Invocation:
    return parse_command(line.split(), environment or {})


@pytest.mark.parametrize(
    ("line", "engine", "model", "stages", "ranks"),
    [
        ("vllm serve M --pipeline-parallel-size 2", "vllm", "M", 2, 1),
        ("vllm serve M --pipeline_parallel_size=3 --tensor-parallel-size 2", "vllm", "M", 3, 2),
        ("vllm serve --model M -pp 4 -tp 2", "vllm", "M", 4, 2),
        ("/opt/v/bin/vllm serve M", "vllm", "M", 1, 1),
        ("python3 -m vllm.entrypoints.cli.main serve M -pp 2", "vllm", "M", 2, 1),
        ("python -m sglang.launch_server --model-path M --pp-size 2", "sglang", "M", 2, 1),
        ("sglang serve --model-path M --pp 2 --tp 2", "sglang", "M", 2, 2),
        ("env A=1 vllm serve M -pp 2", "vllm", "M", 2, 1),
        ("A=1 numactl -N 0 llama-server -m M -ngl 99", "llama.cpp", "M", 1, 1),
        ("./build/bin/llama-bench -m M", "llama.cpp", "M", 1, 1),
    ],
)
def test_engine_model_and_sizes(line: str, engine: str, model: str, stages: int, ranks: int) -> None:
    command = parsed(line)
    assert (command.engine, command.model) == (engine, model)
    assert (command.count("pipeline"), command.count("tensor")) == (stages, ranks)


def test_the_program_is_the_one_whose_packages_are_the_engines() -> None:
    assert parsed("env A=1 /opt/v/bin/vllm serve M").program == "/opt/v/bin/vllm"
    assert parsed("/opt/v/bin/python -m sglang.launch_server --model-path M").program == "/opt/v/bin/python"


def test_assignments_before_the_engine_win_over_the_environment() -> None:
    command = parsed("env X=new vllm serve M", {"X": "old", "Y": "kept"})
    assert command.environment == {"X": "new", "Y": "kept"}


@pytest.mark.parametrize(
    ("line", "kernels"),
    [
        ("vllm serve M", None),
        ("vllm serve M --moe-backend auto", None),
        ("vllm serve M --moe-backend flashinfer_cutlass", "native"),
        ("vllm serve M --linear-backend marlin --moe-backend marlin", "weight-only"),
        ("VLLM_NVFP4_GEMM_BACKEND=cutlass vllm serve M", "native"),
        ("sglang serve --model-path M --fp4-gemm-backend flashinfer_cutlass", "native"),
        ("sglang serve --model-path M --moe-runner-backend marlin", "weight-only"),
        ("llama-server -m M", None),
    ],
)
def test_kernels_that_the_command_forces(line: str, kernels: str | None) -> None:
    assert parsed(line).kernels() == kernels


@pytest.mark.parametrize("line", ["", "ollama run M", "python train.py", "A=1", "python -m http.server"])
def test_a_command_without_an_engine_is_one_line(line: str) -> None:
    with pytest.raises(UsageError, match="no engine in the command"):
        parsed(line)


@pytest.mark.parametrize("size", ["two", "0", "-1", "99999"])
def test_a_size_that_is_none_is_one_line(size: str) -> None:
    with pytest.raises(UsageError, match="is not a number of pipeline parallel ranks"):
        parsed(f"vllm serve M --pipeline-parallel-size={size}").count("pipeline")
