"""Compiling a native library with the machine's own compiler, once, into the user's cache.

A library is kept under a name that changes with all that it depends on, and put there in one move, so
that several recordings may begin at once. It is loaded into the recorded command, so one that another user
could have put there is not taken.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bubblescope.errors import BubblescopeError
from bubblescope.native.libraries import FOLDER, Library

_FAILED = 3
_FLAGS = ("-O2", "-g", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra")
_LANGUAGES = {
    ".c": ("CC", ("cc", "gcc", "clang"), "-std=c11"),
    ".cpp": ("CXX", ("c++", "g++", "clang++"), "-std=c++17"),
}
#: Below the user's cache.
_FOLDERS = ("bubblescope", "native")
_SECONDS = 300
_LONGEST_REASON = 200


class BuildError(BubblescopeError):
    """A native library could not be made; the line says why and what a recording lacks for it."""

    def __init__(self, library: Library, reason: str) -> None:
        super().__init__(
            f"cannot build the {library.name} library, so {library.gives} is not recorded: {reason}", _FAILED
        )


@dataclass(frozen=True)
class _Compiler:
    """A compiler, its version in a line, and the option for the language's version."""

    program: str
    version: str
    standard: str


def build(
    library: Library,
    environment: Mapping[str, str] = os.environ,
    variant: str = "",
    flags: Sequence[str] = (),
    folder: Path = FOLDER,
) -> Path:
    """The library, compiled unless it has been; raises BuildError.

    variant: what else a library depends on, for example the major version of CUPTI; part of its name.
    flags: more options for the compiler. folder: where the sources are.
    """
    try:
        compilers = {suffix: _compiler(library, suffix, environment) for suffix in _suffixes(library)}
        kept = _cache(environment) / f"{_name(library, compilers, variant, flags, folder)}.so"
        if not kept.exists():
            for each in (kept.parent.parent, kept.parent):
                each.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".building-", dir=kept.parent) as scratch:
                made = _compiled(library, compilers, flags, folder, Path(scratch), environment)
                made.chmod(0o700)
                os.replace(made, kept)
        _check_own(library, kept)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise BuildError(library, f"{where}{error.strerror}") from None
    return kept


def _suffixes(library: Library) -> list[str]:
    return sorted({Path(source).suffix for source in library.sources})


def _cache(environment: Mapping[str, str]) -> Path:
    wanted = environment.get("XDG_CACHE_HOME", "")
    base = Path(wanted) if os.path.isabs(wanted) else Path(os.path.expanduser("~")) / ".cache"
    return base.joinpath(*_FOLDERS)


def _check_own(library: Library, kept: Path) -> None:
    """Raise BuildError if another user could put something else in the place of a library that is kept."""
    for path in (kept, *kept.parents[: len(_FOLDERS)]):
        status = path.stat()
        owners = {status.st_uid, path.lstat().st_uid}  # of a link, too
        if not owners <= {0, os.geteuid()} or status.st_mode & stat.S_IWOTH:
            raise BuildError(
                library, f"another user can write {path}; set XDG_CACHE_HOME to a folder of your own"
            )


def _compiler(library: Library, suffix: str, environment: Mapping[str, str]) -> _Compiler:
    variable, candidates, standard = _LANGUAGES[suffix]
    chosen = environment.get(variable)
    path = environment.get("PATH")
    for name in (chosen,) if chosen else candidates:
        program = shutil.which(name, path=path)
        if program is not None:
            version = _run(library, [program, "--version"], environment).partition("\n")[0]
            return _Compiler(program, version, standard)
    language = {".c": "C", ".cpp": "C++"}[suffix]
    raise BuildError(
        library, f"there is no {language} compiler ({', '.join((chosen,) if chosen else candidates)})"
    )


def _name(
    library: Library,
    compilers: Mapping[str, _Compiler],
    variant: str,
    flags: Sequence[str],
    folder: Path,
) -> str:
    """The library's name with a digest of all that decides what is compiled."""
    digest = hashlib.sha256()
    used = (library.sources, library.links, _FLAGS, tuple(flags), variant, platform.machine())
    digest.update(repr((used, sorted(map(repr, compilers.values())))).encode())
    for path in _files(folder):
        digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes() + b"\0")
    parts = ("bubblescope", library.name, variant, platform.machine(), digest.hexdigest()[:16])
    return "-".join(filter(None, parts))


def _files(folder: Path) -> Iterator[Path]:
    yield from sorted(path for path in folder.rglob("*") if path.suffix in (".c", ".cpp", ".h"))


def _compiled(
    library: Library,
    compilers: Mapping[str, _Compiler],
    flags: Sequence[str],
    folder: Path,
    scratch: Path,
    environment: Mapping[str, str],
) -> Path:
    objects = []
    for number, source in enumerate(library.sources):
        compiler = compilers[Path(source).suffix]
        objects.append(str(scratch / f"{number}.o"))
        options = (compiler.standard, *_FLAGS, *flags, f"-I{folder}")
        _run(
            library, [compiler.program, *options, "-c", str(folder / source), "-o", objects[-1]], environment
        )
    made = scratch / "library.so"
    linker = compilers[".cpp" if ".cpp" in compilers else ".c"]
    _run(library, [linker.program, "-shared", *flags, *objects, *library.links, "-o", str(made)], environment)
    return made


def _run(library: Library, command: Sequence[str], environment: Mapping[str, str]) -> str:
    with contextlib.suppress(subprocess.TimeoutExpired):
        done = subprocess.run(
            command, env={**environment, "LC_ALL": "C"}, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, errors="replace", timeout=_SECONDS,
        )  # fmt: skip
        if done.returncode == 0:
            return done.stdout
        lines = done.stderr.splitlines()
        told = next((line for line in lines if "error" in line), lines[-1] if lines else "")
        raise BuildError(library, f"{command[0]} fails: {told.strip()[:_LONGEST_REASON]}")
    raise BuildError(library, f"{command[0]} has not ended after {_SECONDS} s")
