"""What llama.cpp says last is kept and explained, and it says it as it would without us."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.engines.llamacpp.running import LLAMACPP, installed
from tests.record.commands import BUBBLESCOPE
from tests.record.commands import environment as with_bubblescope

pytestmark = installed


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Under a name by which `record` knows a program of llama.cpp."""
    made = tmp_path_factory.mktemp("program") / "llama-cli"
    libraries = [
        f"-L{LLAMACPP / 'bin'}",
        "-lllama",
        "-lggml",
        "-lggml-base",
        f"-Wl,-rpath,{LLAMACPP / 'bin'}",
    ]
    source = Path(__file__).with_name("errors_program.cpp")
    options = ["-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{LLAMACPP / 'include'}"]
    subprocess.run(["c++", *options, str(source), *libraries, "-o", str(made)], check=True)
    return made


def ran(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    # ggml has a debugger print where it aborted; it is not to.
    environment = {**with_bubblescope(), "GGML_NO_BACKTRACE": "1"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    ("words", "explained"),
    [
        (
            ["nowhere.gguf"],
            "llama.cpp could not open the model nowhere.gguf: No such file or directory. What to do: name a "
            "GGUF file that can be read.",
        ),
        (
            ["nowhere.gguf", "abort"],
            "the command ended with status 134 (SIGABRT), for a reason that is not known here; its own "
            "last error: ",
        ),
    ],
)
def test_a_crash_of_llama_cpp_is_explained_behind_a_pipe(
    words: list[str], explained: str, program: Path, tmp_path: Path
) -> None:
    alone = ran(tmp_path, str(program), *words)
    recorded = ran(tmp_path, *BUBBLESCOPE, "record", "-o", "t.json", "--", str(program), *words)
    lines = recorded.stderr.splitlines(keepends=True)
    own = [line for line in lines if not line.startswith("bubblescope: ")]
    assert (recorded.returncode, recorded.stdout) == ((3, 128 - alone.returncode)[len(words) > 1], "")
    assert "".join(own) == alone.stderr
    assert lines[-1].startswith(f"bubblescope: {explained}")
    if len(words) > 1:
        assert "GGML_ASSERT(count == 17) failed" in lines[-1]


def test_without_a_recording_nothing_is_written(program: Path, tmp_path: Path) -> None:
    from bubblescope.native.build import build
    from bubblescope.native.libraries import LIBRARIES

    inherited = {name: value for name, value in os.environ.items() if not name.startswith("BUBBLESCOPE_")}
    done = subprocess.run(
        [str(program), "nowhere.gguf"],
        cwd=tmp_path, env={**inherited, "LD_PRELOAD": str(build(LIBRARIES["ggml"]))}, capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.returncode == 3
    assert list(tmp_path.iterdir()) == []
