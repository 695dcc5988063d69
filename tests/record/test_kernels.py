"""`record --kernels` has CUDA load our library, unless somebody else's is to be loaded, and says which."""

from __future__ import annotations

import os
from pathlib import Path

from bubblescope.record.kernels import Injection, injection


def test_libcuda_and_the_collectors_are_told_of_one_library(tmp_path: Path) -> None:
    found = injection({**os.environ, "XDG_CACHE_HOME": str(tmp_path), "CUDA_INJECTION64_PATH": ""})
    assert found.why_not == ""
    assert set(found.environment) == {"CUDA_INJECTION64_PATH", "BUBBLESCOPE_KERNELS"}
    (library,) = set(found.environment.values())
    assert Path(library).is_relative_to(tmp_path)


def test_another_tool_goes_first() -> None:
    why = (
        "CUDA_INJECTION64_PATH is set already, so another tool (Nsight Systems, say) records what devices "
        "do, and only one can: record without that tool, or unset the variable"
    )
    assert injection({"CUDA_INJECTION64_PATH": "/opt/nsight/inject.so"}) == Injection(why_not=why)


def test_without_a_compiler_the_reason_is_told(tmp_path: Path) -> None:
    found = injection({"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)})
    assert found.environment == {}
    assert found.why_not == (
        "cannot build the cupti library, so the devices' own work is not recorded: "
        "there is no C compiler (cc, gcc, clang)"
    )
