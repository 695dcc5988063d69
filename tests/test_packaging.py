"""What is built is what was written: sdist and wheel, their lists, and the wheel at work."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bubblescope import __version__

ROOT = Path(__file__).parent.parent

#: Kinds of files that a build easily loses behind a symlink.
EASILY_LOST = (
    "collectors/native/probe.c",
    "collectors/native/probe.cpp",
    "collectors/native/probe.h",
    "collectors/native/probe-1.0.dist-info/entry_points.txt",
    "analyzers/deep/__init__.py",
    "analyzers/deep/table.json",
    "bubblescope/report/page.html",
)

#: The tests' own environment must not reach into the programs that they start.
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


@dataclass(frozen=True)
class Built:
    """source: the tree that was built; sdist, wheel: the files."""

    source: Path
    sdist: Path
    wheel: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """A copy of the working tree with one file of each easily lost kind, built as a release is."""
    source = tmp_path_factory.mktemp("source")
    for name in git_files():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, source / name, follow_symlinks=False)
    for name in EASILY_LOST:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).touch()
    out = tmp_path_factory.mktemp("dist")
    # No isolation: the build tools are here, and nothing is fetched.
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(source))
    (sdist,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    return Built(source, sdist, wheel)


@pytest.fixture(scope="module")
def python(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a fresh environment that has the wheel, and borrows what it depends on."""
    environment = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", str(environment))
    python = environment / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", str(python))
    run(*pip, "install", "--no-index", "--no-deps", "--quiet", str(built.wheel))
    (site,) = environment.glob("lib/python*/site-packages")
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def git_files() -> Iterator[str]:
    """The working tree's files, links included, less what git ignores."""
    listed = run("git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    paths = ((name, ROOT / name) for name in listed.split("\0") if name)
    return (name for name, path in paths if path.is_file() or path.is_symlink())


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, env=CLEAN, cwd="/", timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def package_files(source: Path) -> set[str]:
    """Every file of the package as an import would find it, through the links."""
    return {
        os.path.relpath(os.path.join(folder, name), source)
        for folder, _, names in os.walk(source / "bubblescope", followlinks=True)
        for name in names
        if not name.endswith(".pyc")
    }


def test_the_wheel_holds_the_package_whole_and_nothing_else(built: Built) -> None:
    names = set(zipfile.ZipFile(built.wheel).namelist())
    metadata = {name for name in names if name.startswith(f"bubblescope-{__version__}.dist-info/")}
    assert names - metadata == package_files(built.source)
    assert {"bubblescope/" + name.removeprefix("bubblescope/") for name in EASILY_LOST} <= names
    assert {"bubblescope/analyzers/__init__.py", "bubblescope/collectors/__init__.py"} <= names


def test_the_wheel_runs_on_every_platform(built: Built) -> None:
    assert built.wheel.name == f"bubblescope-{__version__}-py3-none-any.whl"


def test_the_sdist_holds_real_files_where_the_repository_has_links(built: Built) -> None:
    with tarfile.open(built.sdist) as archive:
        members = {member.name.split("/", 1)[-1]: member for member in archive.getmembers()}
    assert package_files(built.source) <= set(members)
    assert all(member.isfile() or member.isdir() for member in members.values())


def test_the_installed_command_shows_its_help(python: Path) -> None:
    shown = run(str(python.parent / "bubblescope"), "--help")
    assert "Usage: bubblescope" in shown
    assert "report" in shown


def test_what_is_installed_is_imported_from_there(python: Path) -> None:
    modules = ("bubblescope.cli", "bubblescope.analyzers.results", "bubblescope.collectors")
    script = f"import sys, {', '.join(modules)}\nfor m in {modules}: print(sys.modules[m].__file__)"
    for line in run(str(python), "-c", script).splitlines():
        assert Path(line).is_relative_to(python.parent.parent)


@pytest.mark.parametrize("name", ["analyzers", "collectors", "tests"])
def test_no_generic_name_is_installed(python: Path, name: str) -> None:
    script = f"import importlib.util as u; print(u.find_spec({name!r}))"
    assert run(str(python), "-c", script) == "None\n"
