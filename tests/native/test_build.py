"""Native libraries are compiled once, with whatever compiler there is, and its lack is said in one line."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import stat
from pathlib import Path

import pytest

from bubblescope.native.build import BuildError, build
from bubblescope.native.libraries import Library

ANSWER = Library("answer", ("answer.c",), "the answer")
BOTH = Library("both", ("answer.c", "question.cpp"), "both")


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    folder = tmp_path / "sources"
    folder.mkdir()
    (folder / "answer.c").write_text(
        '__attribute__((visibility("default"))) int answer(void) { return ANSWER; }\n'
    )
    (folder / "question.cpp").write_text(
        'extern "C" __attribute__((visibility("default"))) int question() { auto n = 6; return n * 9; }\n'
    )
    return folder


def environment(tmp_path: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), **more}


def test_a_library_is_compiled_once_and_found_again(sources: Path, tmp_path: Path) -> None:
    first = build(ANSWER, environment(tmp_path), flags=("-DANSWER=42",), folder=sources)
    made = first.stat().st_mtime_ns
    assert ctypes.CDLL(str(first)).answer() == 42
    again = build(ANSWER, environment(tmp_path), flags=("-DANSWER=42",), folder=sources)
    assert (again, again.stat().st_mtime_ns) == (first, made)
    assert [path.name for path in first.parent.iterdir()] == [first.name]


@pytest.mark.parametrize("change", ["source", "flags", "variant"])
def test_whatever_it_depends_on_makes_another(sources: Path, tmp_path: Path, change: str) -> None:
    first = build(ANSWER, environment(tmp_path), flags=("-DANSWER=42",), folder=sources)
    if change == "source":
        (sources / "more.h").write_text("/* another header */\n")
    flags = ("-DANSWER=43",) if change == "flags" else ("-DANSWER=42",)
    other = build(
        ANSWER,
        environment(tmp_path),
        variant="13" if change == "variant" else "",
        flags=flags,
        folder=sources,
    )
    assert first != other
    assert first.exists() and other.exists()


def test_c_and_cpp_go_into_one_library(sources: Path, tmp_path: Path) -> None:
    library = ctypes.CDLL(str(build(BOTH, environment(tmp_path), flags=("-DANSWER=42",), folder=sources)))
    assert (library.answer(), library.question()) == (42, 54)


def test_without_a_compiler_one_line_says_what_is_missing(sources: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(BuildError) as error:
        build(ANSWER, environment(tmp_path, PATH=str(tmp_path / "empty"), CC=""), folder=sources)
    assert str(error.value) == (
        "cannot build the answer library, so the answer is not recorded: "
        "there is no C compiler (cc, gcc, clang)"
    )


def test_what_the_compiler_says_is_told(sources: Path, tmp_path: Path) -> None:
    (sources / "answer.c").write_text("int answer(void) { return }\n")
    with pytest.raises(BuildError, match=r"answer\.c:1:\d+: error: expected expression") as error:
        build(ANSWER, environment(tmp_path), folder=sources)
    assert "\n" not in str(error.value)


def test_a_cache_that_cannot_be_written_is_told(sources: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("in the way")
    with pytest.raises(BuildError, match=r"cache.*: (Not a directory|File exists)"):
        build(ANSWER, environment(tmp_path), flags=("-DANSWER=1",), folder=sources)


@pytest.mark.parametrize("above", [0, 1, 2])  # the library, and the folders that it is in
def test_a_library_that_others_can_write_is_not_taken(sources: Path, tmp_path: Path, above: int) -> None:
    kept = build(ANSWER, environment(tmp_path), flags=("-DANSWER=42",), folder=sources)
    writable = (kept, *kept.parents)[above]
    writable.chmod(0o777)
    with pytest.raises(BuildError, match=f"another user can write {re.escape(str(writable))}; set XDG_CACHE"):
        build(ANSWER, environment(tmp_path), flags=("-DANSWER=42",), folder=sources)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_library_of_another_user_is_not_taken(sources: Path, tmp_path: Path) -> None:
    kept = build(ANSWER, environment(tmp_path), flags=("-DANSWER=42",), folder=sources)
    os.chown(kept, 65534, 65534)
    with pytest.raises(BuildError, match="another user can write"):
        build(ANSWER, environment(tmp_path), flags=("-DANSWER=42",), folder=sources)


def test_a_library_is_its_users_alone_whatever_the_umask_and_its_folder_may_be_a_link(
    sources: Path, tmp_path: Path
) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "cache/bubblescope").symlink_to(tmp_path / "elsewhere")
    before = os.umask(0)
    try:
        kept = build(ANSWER, environment(tmp_path), flags=("-DANSWER=42",), folder=sources)
    finally:
        os.umask(before)
    assert {stat.S_IMODE(path.stat().st_mode) for path in (kept, kept.parent)} == {0o700}


def test_the_chosen_compiler_is_used(sources: Path, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"there is no C compiler \(no-such-compiler\)"):
        build(ANSWER, environment(tmp_path, CC="no-such-compiler"), folder=sources)
    chosen = shutil.which("gcc") or shutil.which("clang")
    assert chosen is not None
    assert build(ANSWER, environment(tmp_path, CC=chosen), flags=("-DANSWER=1",), folder=sources).exists()
