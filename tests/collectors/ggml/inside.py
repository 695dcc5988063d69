"""A stand-in for a program of llama.cpp that the real ggml is linked into, compiled from its source."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.engines.llamacpp.running import LLAMACPP

_GGML = LLAMACPP / "source" / "ggml"
#: What a scheduler and its registry need; what computes on the CPU is a library that the program loads.
_SOURCES = (
    "ggml.c", "ggml-alloc.c", "ggml-quants.c", "ggml.cpp", "ggml-backend.cpp", "ggml-backend-meta.cpp",
    "ggml-threading.cpp", "ggml-backend-reg.cpp", "ggml-backend-dl.cpp",
)  # fmt: skip


def compiled_inside(folder: Path, *options: str) -> Path:
    """The program, under a name by which `record` knows it; ggml has no library of its own in it.

    options: of the linker.
    """
    folder.mkdir()
    (folder / "ggml-version.h").write_text('#define GGML_VERSION "inside"\n#define GGML_COMMIT ""\n')
    include = [f"-I{folder}", f"-I{_GGML / 'include'}", f"-I{_GGML / 'src'}"]
    defined = ["-w", "-D_GNU_SOURCE", "-DGGML_SCHED_MAX_COPIES=4"]
    for source in _SOURCES:
        compiler = ["cc", "-std=gnu11"] if source.endswith(".c") else ["c++", "-std=gnu++17"]
        made = str(folder / f"{source}.o")
        _run(*compiler, "-O0", *defined, *include, "-c", str(_GGML / "src" / source), "-o", made)
    program = folder / "llama-cli"
    objects = [str(folder / f"{source}.o") for source in _SOURCES]
    own = str(Path(__file__).with_name("inside_program.cpp"))
    strict = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", *include]
    _run("c++", *strict, own, *objects, *options, "-lpthread", "-ldl", "-o", str(program))
    return program


def _run(*command: str) -> None:
    subprocess.run(command, check=True)
