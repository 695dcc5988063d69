"""A whole recording with `--kernels`, of a program whose CUDA is a stub: from the launch to the report."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from bubblescope.trace.model import Trace
from bubblescope.trace.read import read_trace
from tests.collectors.cupti.stubs import PRELUDE, Stubs, stubs
from tests.record.commands import BUBBLESCOPE, environment

#: Two microbatches: kernels that run long after they were launched, one of them a graph's, and a send.
PROGRAM = """
stage = recorder.stage(0, rank=0, layers=(0, 4), device="NVIDIA H200")
for microbatch in (0, 1):
    begin = 1_000_000 + 1000 * microbatch
    with stage.span("forward", microbatch=microbatch, step=microbatch, phase="prefill", tokens=8):
        kernel(b"gemm", begin, begin + 100)
        launch = kernel(b"norm", begin + 110, begin + 120, graph=5)
        kernel(b"gemm", begin + 120, begin + 300, graph=5, launch=launch)
    with stage.span("send", microbatch=microbatch, step=microbatch, peer=1):
        kernel(b"ncclDevKernel_SendRecv(ncclDevKernelArgs)", begin + 300, begin + 350, stream=9)
"""


@pytest.fixture(scope="module")
def cuda(tmp_path_factory: pytest.TempPathFactory) -> Stubs:
    return stubs(tmp_path_factory.mktemp("stubs"), 13)


def record(folder: Path, cuda: Stubs, code: str, *options: str, **more: str) -> tuple[Trace, str]:
    """Record a program; returns the trace and what was said."""
    program = [sys.executable, "-c", PRELUDE + textwrap.dedent(code), str(cuda.folder), str(cuda.injection)]
    done = subprocess.run(
        [*BUBBLESCOPE, "record", "-o", "t.json", *options, "--", *program],
        cwd=folder, env={**environment(), **more}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return read_trace(folder / "t.json"), done.stderr


def lacks(trace: Trace) -> list[tuple[str, str]]:
    """What of the kernels is missing, and why."""
    return [(lost.what, lost.why) for lost in trace.run.lost if lost.what.startswith("kernels")]


def test_kernels_are_joined_to_their_microbatch_and_spans_are_the_devices(
    cuda: Stubs, tmp_path: Path
) -> None:
    trace, _ = record(tmp_path, cuda, PROGRAM, "--kernels")
    kernels = trace.slices[trace.slices["category"] == "kernel"]
    assert kernels[["name", "microbatch", "span", "operation"]].to_numpy().tolist() == [
        [name, microbatch, span, operation]
        for microbatch in (0, 1)
        for name, span, operation in (
            ("gemm", "forward", ""), ("norm", "forward", ""), ("gemm", "forward", ""),
            ("ncclDevKernel_SendRecv(ncclDevKernelArgs)", "send", "send"),
        )
    ]  # fmt: skip
    assert trace.spans[["kind", "begin_ns", "end_ns", "clock"]].to_numpy().tolist() == [
        ["forward", 1_000_000, 1_000_300, "device"], ["send", 1_000_300, 1_000_350, "device"],
        ["forward", 1_001_000, 1_001_300, "device"], ["send", 1_001_300, 1_001_350, "device"],
    ]  # fmt: skip
    assert lacks(trace) == []
    assert trace.run.devices[0].capability == "9.0"


def test_without_the_option_cuda_is_left_alone(cuda: Stubs, tmp_path: Path) -> None:
    code = "assert 'CUDA_INJECTION64_PATH' not in os.environ and 'BUBBLESCOPE_KERNELS' not in os.environ"
    trace, _ = record(tmp_path, cuda, f'{code}\nwith recorder.stage(0).span("forward"):\n    pass')
    assert (len(trace.slices), lacks(trace)) == (0, [])


def test_where_another_profiler_holds_cupti_the_rest_is_recorded(cuda: Stubs, tmp_path: Path) -> None:
    trace, _ = record(tmp_path, cuda, PROGRAM, "--kernels", STUB_CUPTI_HELD="1")
    assert (len(trace.slices), len(trace.spans)) == (0, 4)
    assert lacks(trace) == [("kernels of processes", "another profiler holds CUPTI")]


def test_where_another_tool_is_to_be_loaded_it_is_said_at_once(cuda: Stubs, tmp_path: Path) -> None:
    trace, said = record(tmp_path, cuda, PROGRAM, "--kernels", CUDA_INJECTION64_PATH=str(cuda.injection))
    why = (
        "CUDA_INJECTION64_PATH is set already, so another tool (Nsight Systems, say) records what devices "
        "do, and only one can: record without that tool, or unset the variable"
    )
    assert f"--kernels: {why}" in said
    assert lacks(trace) == [("kernels", why)]
