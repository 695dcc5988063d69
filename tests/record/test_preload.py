"""llama.cpp is given the library that records it, and only where that can be of use."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from bubblescope.record.preload import VARIABLE, preload

#: Programs that ggml is linked into, beside them, or not at all.
_SOURCE = 'extern int printf(const char *, ...); int main(void) {{ return printf("{text}") < 0; }}\n'


def program(folder: Path, name: str, text: str = "", *options: str) -> Path:
    source = folder / "program.c"
    source.write_text(_SOURCE.format(text=text))
    subprocess.run(["cc", str(source), "-o", str(folder / name), *options], check=True)
    return folder / name


def variables(**more: str) -> dict[str, str]:
    return {**{name: value for name, value in os.environ.items() if name != VARIABLE}, **more}


def test_a_program_of_llama_cpp_loads_the_library_before_what_its_user_preloads(tmp_path: Path) -> None:
    server = program(tmp_path, "llama-server")
    ours, theirs = (
        preload([str(server)], variables(LD_PRELOAD="/lib/theirs.so")).environment[VARIABLE].split(":")
    )
    assert Path(ours).name.startswith("bubblescope-ggml-")
    assert theirs == "/lib/theirs.so"


@pytest.mark.parametrize(
    "command",
    [
        "llama-bench -m x.gguf",
        "env A=1 timeout 5 llama-cli",
        "python -m llama_cpp.server",
        "ggml-rpc-server -p 1",
    ],
)
def test_it_is_known_behind_wrappers_and_in_python(command: str) -> None:
    assert VARIABLE in preload(command.split(), variables()).environment


def test_a_program_of_any_name_that_is_linked_against_ggml_loads_the_library(tmp_path: Path) -> None:
    library = tmp_path / "libggml-base.so"
    empty = tmp_path / "empty.c"
    empty.write_text("int ggml_empty(void) { return 0; }")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(empty)], check=True)
    main = tmp_path / "main.c"
    main.write_text("int ggml_empty(void); int main(void) { return ggml_empty(); }")
    own = tmp_path / "own-program"
    subprocess.run(["cc", "-o", str(own), str(main), f"-L{tmp_path}", "-lggml-base"], check=True)
    for command in ([str(own), "-m", "x.gguf"], ["sh", "-c", f"exec {own} -m x.gguf"]):
        assert VARIABLE in preload(command, variables()).environment
    assert VARIABLE not in preload(["ls"], variables()).environment


def test_another_engine_loads_nothing() -> None:
    found = preload(["vllm", "serve", "MODEL"], variables())
    assert (found.environment, found.why_not) == ({}, "")


@pytest.mark.parametrize("options", [(), ("-static",), ("-s",)], ids=["plain", "static", "stripped"])
def test_a_program_with_ggml_inside_is_told_to_be_beyond_reach(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    server = program(tmp_path, "llama-server", "ggml/src/ggml-backend.cpp", *options)
    for command in ([str(server)], ["sh", "-c", f"exec {server} -m x.gguf"]):
        found = preload(command, variables())
        assert (found.environment, found.logs) == ({}, True)
        assert found.why_not.startswith(f"{server} has llama.cpp linked into it, so only its log can be read")


#: Functions and data by whose names ggml's tables are found.
_NAMED = (
    'const char *file = "ggml-backend.cpp"; int _ZGVZL7get_regvE3reg;\n'
    "void llama_decode(void) {} void ggml_graph_get_tensor(void) {} void ggml_backend_dev_count(void) {}\n"
    "void ggml_backend_dev_get(void) {} void ggml_backend_tensor_set_2d(void) {}\n"
)


def named(folder: Path, text: str, *options: str) -> Path:
    more = folder / "named.c"
    more.write_text(text)
    return program(folder, "llama-server", "", str(more), *options)


def test_a_program_with_ggml_inside_and_its_symbols_loads_the_library(tmp_path: Path) -> None:
    found = preload([str(named(tmp_path, _NAMED))], variables())
    assert VARIABLE in found.environment
    assert (found.why_not, found.logs) == ("", False)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (_NAMED, ("-s",)),
        (_NAMED, ("-static",)),
        (_NAMED.replace("_ZGVZL7get_regvE3reg", "other"), ()),
        (_NAMED.replace("set_2d", "other"), ()),
    ],
    ids=["stripped", "without a loader", "without its registry", "older"],
)
def test_where_the_tables_are_not_found_only_the_log_is_read(
    tmp_path: Path, text: str, options: tuple[str, ...]
) -> None:
    found = preload([str(named(tmp_path, text, *options))], variables())
    assert (found.environment, found.logs) == ({}, True)


def test_of_a_program_without_a_log_nothing_can_be_seen(tmp_path: Path) -> None:
    bench = program(tmp_path, "llama-bench", "ggml/src/ggml-backend.cpp")
    found = preload([str(bench)], variables())
    assert (found.environment, found.logs) == ({}, False)
    assert "record one that was built with shared libraries" in found.why_not


@pytest.mark.parametrize("length", [5, 40, 63, 64, 200, 5000])
def test_a_program_that_is_cut_off_is_taken_for_any_other(tmp_path: Path, length: int) -> None:
    server = program(tmp_path, "llama-server", "ggml-backend")
    server.write_bytes(server.read_bytes()[:length])
    assert VARIABLE in preload([str(server)], variables()).environment


def test_a_program_with_ggml_beside_it_is_not(tmp_path: Path) -> None:
    empty = tmp_path / "empty.c"
    empty.write_text("int ggml_backend(void) { return 0; }\n")
    library = tmp_path / "libggml-base.so"
    subprocess.run(
        ["cc", "-shared", "-Wl,-soname,libggml-base.so", str(empty), "-o", str(library)], check=True
    )
    server = program(tmp_path, "llama-server", "ggml-backend", "-Wl,--no-as-needed", str(library))
    assert preload([str(server)], variables()).why_not == ""


def test_without_a_compiler_it_is_said(tmp_path: Path) -> None:
    found = preload(["llama-server"], variables(PATH=str(tmp_path), CC="", XDG_CACHE_HOME=str(tmp_path)))
    assert found.environment == {}
    assert found.why_not.startswith("cannot build the ggml library, so what llama.cpp does is not recorded:")


def test_a_cache_that_the_loader_cannot_name_is_said(tmp_path: Path) -> None:
    found = preload(["llama-server"], variables(XDG_CACHE_HOME=str(tmp_path / "with space")))
    assert "set XDG_CACHE_HOME to a path without spaces" in found.why_not
