"""A small C program that records with the C spool writer, compiled as strictly as it can be."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from bubblescope.native.libraries import FOLDER, SPOOL

STRICT = ("-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror")
SANITIZERS = {
    "plain": (),
    "address": ("-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
    "thread": ("-fsanitize=thread",),
}


def compiled(folder: Path, sanitizer: str) -> Path:
    program = folder / f"spool_program_{sanitizer}"
    sources = [str(Path(__file__).with_suffix(".c")), *(str(FOLDER / name) for name in SPOOL)]
    command = [
        "cc",
        *STRICT,
        *SANITIZERS[sanitizer],
        f"-I{FOLDER}",
        *sources,
        "-lpthread",
        "-o",
        str(program),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return program


def run(program: Path, spool: Path | None, *words: str, **environment: int) -> int:
    """Run the program to its end; returns its exit status, having said nothing."""
    done = subprocess.run(
        [str(program), *words],
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith("BUBBLESCOPE_")},
            **({"BUBBLESCOPE_SPOOL": str(spool)} if spool is not None else {}),
            **{name: str(value) for name, value in environment.items()},
        },
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout + done.stderr == ""
    return done.returncode
