"""`bubblescope build-native` compiles every native collector, and says what is missing where it cannot."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from bubblescope.native.libraries import LIBRARIES

ROOT = Path(__file__).parents[2]


def built(**variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bubblescope", "build-native"],
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
        text=True,
    )


def test_it_prints_where_the_libraries_are(tmp_path: Path) -> None:
    done = built(XDG_CACHE_HOME=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    told = dict(line.split() for line in done.stdout.splitlines())
    assert list(told) == list(LIBRARIES)
    assert {str(path) for path in (tmp_path / "bubblescope" / "native").iterdir()} == set(told.values())


def test_without_a_compiler_it_says_what_a_recording_lacks(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = built(XDG_CACHE_HOME=str(tmp_path), PATH=str(tmp_path / "empty"), CC="", CXX="")
    assert done.returncode == 3
    assert done.stdout == "".join(f"{name}  -\n" for name in LIBRARIES)
    assert done.stderr == (
        "bubblescope: cannot build the ggml library, so what llama.cpp does is not recorded: "
        "there is no C compiler (cc, gcc, clang)\n"
    )
