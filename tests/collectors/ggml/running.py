"""Real decodes by libllama over the fake GPUs, recorded with the preloaded library.

The program stands for any that uses libllama: nothing of it knows of the recording.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from bubblescope.native.build import build
from bubblescope.native.libraries import FOLDER, LIBRARIES
from bubblescope.record.assemble import traces_of
from bubblescope.trace.model import Trace
from tests.engines.llamacpp.gguf import Shape, write
from tests.engines.llamacpp.running import LLAMACPP

FAKE_GPUS = Path(__file__).parents[2] / "engines" / "llamacpp" / "fake_gpu.cpp"
_BIN = LLAMACPP / "bin"
LIBRARIES_OF_GGML = ("-lggml", "-lggml-base", f"-L{_BIN}", f"-Wl,-rpath,{_BIN}")
#: 8 layers of width 64: activations of a token are 256 bytes.
SHAPE = Shape(layers=8, width=64)


@dataclass(frozen=True)
class Programs:
    """What is compiled once for all tests.

    decode: the program. as_library: the same, to be loaded into another program. model: a GGUF file.
    """

    decode: Path
    as_library: Path
    fake_gpus: Path
    model: Path


def compiled(folder: Path) -> Programs:
    source = Path(__file__).with_name("decode_program.cpp")
    libraries = (
        f"-L{LLAMACPP / 'bin'}",
        "-lllama",
        "-lggml",
        "-lggml-base",
        f"-Wl,-rpath,{LLAMACPP / 'bin'}",
    )
    # Its name is that of a program of llama.cpp, by which `record` knows it.
    programs = Programs(
        folder / "llama-cli", folder / "libdecode.so", folder / "libggml-fake.so", folder / "model.gguf"
    )
    _compile(source, programs.decode, "-Wall", "-Wextra", "-Werror", *libraries)
    _compile(source, programs.as_library, "-fPIC", "-shared", *libraries)
    _compile(FAKE_GPUS, programs.fake_gpus, "-fPIC", "-shared", *LIBRARIES_OF_GGML)
    write(programs.model, SHAPE)
    return programs


def _compile(source: Path, made: Path, *options: str) -> None:
    command = [
        "c++",
        "-std=c++17",
        "-O1",
        f"-I{LLAMACPP / 'include'}",
        str(source),
        *options,
        "-o",
        str(made),
    ]
    subprocess.run([*command, "-lpthread"], check=True)


def fake_tools(folder: Path, nvtx: str = "libnvtx3interop.so.1") -> dict[str, object]:
    """Environment with fakes of a tool that knows NVTX and of the library that records kernels.

    The ranges are logged to the file `log` in the folder.
    """
    library = folder / nvtx
    source = Path(__file__).with_name("fake_tools.c")
    subprocess.run(["cc", "-fPIC", "-shared", str(source), "-o", str(library)], check=True)
    return {
        "LD_PRELOAD": f"{build(LIBRARIES['ggml'])}:{library}", "LD_LIBRARY_PATH": folder,
        "BUBBLESCOPE_KERNELS": library, "NVTX_INJECTION64_PATH": "tool.so", "FAKE_TOOLS_LOG": folder / "log",
    }  # fmt: skip


def fake_cuda(folder: Path) -> tuple[Path, Path]:
    """The fake GPUs under the name of CUDA, and the fake driver that makes their events."""
    source = folder / "fake_gpu_called_cuda.cpp"
    source.write_text(FAKE_GPUS.read_text().replace('"FAKE"', '"CUDA"'))
    gpus, driver = folder / "libggml-cuda.so", folder / "libcuda.so.1"
    _compile(source, gpus, "-fPIC", "-shared", *LIBRARIES_OF_GGML)
    driver_source = Path(__file__).with_name("fake_cuda.cpp")
    _compile(
        driver_source, driver, "-fPIC", "-shared", "-Wl,-soname,libcuda.so.1", "-Wall", "-Wextra", "-Werror"
    )
    return gpus, driver


def sanitizing(folder: Path) -> dict[str, str]:
    """What has a program load the library as it is built for the sanitizers, and end at what they find."""
    return {
        # A program that is not sanitized has to load their runtimes first.
        "LD_PRELOAD": " ".join([*_sanitizer_runtimes(), str(_sanitized_library(folder))]),
        "ASAN_OPTIONS": "detect_leaks=0",
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    }


def _sanitized_library(folder: Path) -> Path:
    made = folder / "sanitized.so"
    sources = [str(FOLDER / source) for source in LIBRARIES["ggml"].sources]
    flags = [
        "-std=c11",
        "-O1",
        "-g",
        "-fPIC",
        "-shared",
        "-fvisibility=hidden",
        "-Wall",
        "-Wextra",
        "-Werror",
    ]
    sanitizers = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
    links = LIBRARIES["ggml"].links
    subprocess.run(["cc", *flags, *sanitizers, f"-I{FOLDER}", *sources, *links, "-o", str(made)], check=True)
    return made


def _sanitizer_runtimes() -> list[str]:
    names = ("libasan.so", "libubsan.so")
    return [_told("cc", f"-print-file-name={name}") for name in names]


def _told(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def environment(
    programs: Programs, node_us: Sequence[int] = (50, 50, 50), **more: str | Path
) -> dict[str, str]:
    """Of a program that finds the fake GPUs, whose nodes take so many microseconds each."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("BUBBLESCOPE_")}
    return {
        **inherited,
        "GGML_BACKEND_DIR": str(LLAMACPP / "bin"),
        "GGML_BACKEND_PATH": str(programs.fake_gpus),
        "FAKE_GPU_NODE_US": ",".join(map(str, node_us)),
        **{name: str(value) for name, value in more.items()},
    }


def arguments(
    programs: Programs, devices: int = 3, tokens: int = 1024, ubatch: int = 256, split: str | None = None
) -> list[str]:
    names = ",".join(f"FAKE{number}" for number in range(devices))
    return [str(programs.model), names, str(tokens), str(ubatch), *([split] if split else [])]


def recorded(programs: Programs, spool: Path, *words: str, **variables: str | Path) -> Trace:
    """The trace of a decode that runs to its end."""
    preload = {"LD_PRELOAD": build(LIBRARIES["ggml"]), "BUBBLESCOPE_SPOOL": spool, **variables}
    done = subprocess.run(
        [str(programs.decode), *words],
        env=environment(programs, **preload),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr[-2000:]
    (trace,) = traces_of(str(spool))
    return trace


def of_kind(trace: Trace, kind: str) -> pd.DataFrame:
    """The spans of a kind."""
    return trace.spans[trace.spans["kind"] == kind]
