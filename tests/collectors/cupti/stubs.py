"""Programs that use CUDA as far as stubs of its libraries go: what their devices do is made up.

No device is needed. The injection is the real one, and is loaded and called as libcuda would.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

from bubblescope.native.build import build
from bubblescope.native.libraries import FOLDER, LIBRARIES
from tests.collectors.programs import COLLECTORS
from tests.native.spool_program import SANITIZERS, STRICT

_HERE = Path(__file__).parent
_STRICT = ("-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared")
#: The program has `kernel`, `position` and `recorder`; its arguments are a folder of stubs and the injection.
PRELUDE = """
import ctypes, os, signal, sys, time
folder, injection = sys.argv[1:3]
injection = os.environ.get("CUDA_INJECTION64_PATH") or injection
cuda = ctypes.CDLL(folder + "/libcuda.so.1")
cupti = ctypes.CDLL([folder + "/" + name for name in os.listdir(folder) if "cupti" in name][0])
U32, U64 = ctypes.c_uint32, ctypes.c_uint64
cupti.stub_kernel.argtypes = [ctypes.c_char_p, U32, U32, U64, U64, U32, U32]
cupti.stub_copy.argtypes = [U32, U32, U64, U32, U32, U64, U64]
cupti.stub_end.argtypes = [U32, U64]

def kernel(name, begin, end, device=0, stream=7, graph=0, launch=0):
    return cupti.stub_kernel(name, device, stream, begin, end, graph, launch)

def position():
    return ctypes.CDLL(injection).bubblescope_position()

import _bubblescope_inject as recorder
ctypes.CDLL(injection).InitializeInjection()
"""


@dataclass(frozen=True)
class Stubs:
    """A folder with stubs of libcuda and of libcupti in one major version, and the real injection."""

    folder: Path
    injection: Path


def stubs(folder: Path, major: int, driver: int | None = None) -> Stubs:
    """Compile the stubs, and the injection as strictly as it can be.

    driver: the major version of CUDA that the driver is made for, if not the same.
    """
    for source, name, version in (
        ("stub_cuda.c", "libcuda.so.1", driver or major),
        ("stub_cupti.c", f"libcupti.so.{major}", major),
    ):
        options = (
            f"-DSTUB_MAJOR={version}",
            f"-Wl,-soname,{name}",
            "-o",
            str(folder / name),
            "-ldl",
            "-lpthread",
        )
        done = subprocess.run(["cc", *_STRICT, str(_HERE / source), *options], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
    return Stubs(folder, build(LIBRARIES["cupti"], flags=("-Werror",)))


def threads_program(stubs: Stubs, sanitizer: str) -> Path:
    """A program in C with the injection in it that uses the stubs from several threads, sanitized."""
    program = stubs.folder / f"threads_{sanitizer}"
    sources = [_HERE / "threads_program.c", *(FOLDER / name for name in LIBRARIES["cupti"].sources)]
    found = (f"-L{stubs.folder}", f"-Wl,--no-as-needed,-rpath,{stubs.folder}")
    libraries = (*found, "-l:libcuda.so.1", "-l:libcupti.so.13")
    options = (*STRICT, *SANITIZERS[sanitizer], f"-I{FOLDER}")
    command = ["cc", *options, *map(str, sources), *libraries, "-lpthread", "-ldl", "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return program


def run(stubs: Stubs, spool: Path, code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program that records to its end, however it comes."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("BUBBLESCOPE_")}
    program = [
        sys.executable,
        "-c",
        PRELUDE + textwrap.dedent(code),
        str(stubs.folder),
        str(stubs.injection),
    ]
    return subprocess.run(
        program,
        env={
            **inherited,
            "PYTHONPATH": str(COLLECTORS),
            "BUBBLESCOPE_SPOOL": str(spool),
            "BUBBLESCOPE_KERNELS": str(stubs.injection),
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=120,
    )
