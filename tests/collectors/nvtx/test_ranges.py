"""Spans as NVTX ranges, as a tool sees them that NVTX itself loads."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from bubblescope.trace.nsys.spans import told_by
from tests.collectors.programs import processes_of, run_program

SOURCE = Path(__file__).parent / "tool.c"
#: As the first stage of two would: what is known only at the end of a span is not in its range.
PROGRAM = """
stage = recorder.stage(1, rank=1, layers=(27, 36))
with stage.span("recv", microbatch=7, peer=0) as span:
    span.tokens = 4096
    with stage.span("forward", phase="prefill", step=9, microbatch=7, tokens=4096, prefix=8192):
        pass
"""


@pytest.fixture(scope="module")
def tool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    library = tmp_path_factory.mktemp("tool") / "tool.so"
    flags = ["-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run([compiler, *flags, "-o", str(library), str(SOURCE)], check=True)
    return library


def seen(tool: Path, folder: Path, imports: str) -> list[str]:
    """What the tool saw of PROGRAM, line by line; the program's own recording is whole."""
    pytest.importorskip("nvtx")
    spool = folder / "spool"
    spool.mkdir()
    log = folder / "log"
    done = run_program(f"import {imports}\n{PROGRAM}", spool, NVTX_INJECTION64_PATH=tool, NVTX_TOOL_LOG=log)
    assert (done.returncode, done.stderr) == (0, "")
    (process,) = processes_of(spool)
    assert len(process.spans) == 2
    return log.read_text().splitlines()


def test_a_range_says_all_that_is_known_of_its_span(tool: Path, tmp_path: Path) -> None:
    lines = seen(tool, tmp_path, "numpy, nvtx")
    assert [line.rpartition("|")[0] for line in lines[:2]] == [
        "start 1|bubblescope|recv stage=1 rank=1 layers=27-36 microbatch=7 peer=0",
        "start 2|bubblescope|forward stage=1 rank=1 layers=27-36 phase=prefill step=9 microbatch=7 "
        "tokens=4096 prefix=8192",
    ]
    assert lines[2:] == ["end 2|bubblescope", "end 1|bubblescope"]


def test_its_payload_is_stage_microbatch_and_tokens(tool: Path, tmp_path: Path) -> None:
    payloads = [line.rpartition("|")[2] for line in seen(tool, tmp_path, "numpy, nvtx")[:2]]
    assert payloads == [struct.pack("<qqq", *told).hex() for told in ((1, 7, -1), (1, 7, 4096))]


def test_in_a_process_without_numpy_it_is_the_microbatch(tool: Path, tmp_path: Path) -> None:
    imports = "nvtx; sys.modules.pop('numpy', None)"
    assert [line.rpartition("|")[2] for line in seen(tool, tmp_path, imports)[:2]] == ["7", "7"]


def test_where_no_tool_is_attached_there_are_no_ranges(tmp_path: Path) -> None:
    pytest.importorskip("nvtx")
    done = run_program("import nvtx\nprint(recorder.stage(0).ranges)", tmp_path)
    assert (done.stdout, done.stderr) == ("None\n", "")


def test_a_reader_finds_the_span_by_the_name_of_its_range(tool: Path, tmp_path: Path) -> None:
    _, forward = [told_by(line.split("|")[2]) for line in seen(tool, tmp_path, "nvtx")[:2]]
    assert forward == {
        "kind": "forward", "stage": 1, "rank": 1, "layer_begin": 27, "layer_end": 36, "phase": "prefill",
        "step": 9, "microbatch": 7, "tokens": 4096, "prefix": 8192, "peer": -1, "bytes": -1,
    }  # fmt: skip


#: A stand-in for torch, which CUDA and hundreds of megabytes would be needed for.
TORCH = """
from types import SimpleNamespace
told = []
nvtx = SimpleNamespace(range_start=lambda name: told.append(name) or len(told),
                       range_end=lambda number: told.append(number))
sys.modules["torch"] = SimpleNamespace(cuda=SimpleNamespace(nvtx=nvtx))
with recorder.stage(1, rank=1).span("forward", phase="decode", microbatch=7, tokens=1):
    pass
print(told[-2:])
"""
TOLD_TO_TORCH = "['forward stage=1 rank=1 phase=decode microbatch=7 tokens=1', 3]\n"


def test_through_torch_there_is_the_name_alone(tmp_path: Path) -> None:
    done = run_program(TORCH, tmp_path)
    assert (done.stdout, done.stderr) == (TOLD_TO_TORCH, "")


@pytest.mark.parametrize(("attached", "told"), [(True, TOLD_TO_TORCH), (False, "[]\n")])
def test_a_tool_that_nvtx_takes_for_none_gets_torchs_ranges(
    tmp_path: Path, attached: bool, told: str
) -> None:
    """As nvtx does with Nsight Systems 2023.4 and older: its domain is one that does nothing."""
    blind = """
class DummyDomain:
    pass
sys.modules["nvtx"] = type(sys)("nvtx")
sys.modules["nvtx"].get_domain = lambda name: DummyDomain()
"""
    done = run_program(blind + TORCH, tmp_path, **{"NVTX_INJECTION64_PATH": "tool.so"} if attached else {})
    assert (done.stdout, done.stderr) == (told, "")
