"""What holds for every file of the repository."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parent.parent

LONGEST_FILE = 450
VAGUE = {"utils", "util", "helpers", "helper", "manager", "managers", "misc", "common"}

#: Where packages come from is the machine's own setting.
REGISTRY = re.compile(
    r"pypi\.org|pythonhosted\.org|npmjs\.(?:org|com)|deb\.debian\.org|download\.pytorch\.org|"
    r"crates\.io|proxy\.golang\.org|index[-]url|find[-]links\s*=",
    re.IGNORECASE,
)
PATH_OF_A_MACHINE = re.compile(r"(?<![\w.])/work/\w")

#: What a folder's modules may import of ours. Data flows one way.
MAY_IMPORT = {
    "analyzers": ("bubblescope.analyzers", "bubblescope.trace.frames", "bubblescope.trace.model"),
    "collectors": (),
    "bubblescope/trace": ("bubblescope.trace", "bubblescope.errors", "bubblescope.__version__"),
    "bubblescope/report": (
        "bubblescope.report",
        "bubblescope.analyzers",
        "bubblescope.trace",
        "bubblescope.errors",
        "bubblescope.__version__",
    ),
}


def files() -> list[Path]:
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True, check=True
    )
    return [ROOT / name for name in listed.stdout.split("\0") if name]


def texts() -> Iterator[tuple[str, str]]:
    """Name and text of every file that is text; a recording is not."""
    for path in files():
        if path.is_file() and not path.is_symlink():
            content = path.read_bytes()
            if b"\0" not in content and "sample_traces" not in path.parts:
                yield str(path.relative_to(ROOT)), content.decode()


def modules(folder: str = "") -> Iterator[tuple[str, ast.Module]]:
    for name, text in texts():
        if name.endswith(".py") and name.startswith(folder):
            yield name, ast.parse(text)


def test_no_registry_address() -> None:
    assert [(name, found[0]) for name, text in texts() if (found := REGISTRY.search(text))] == []


def test_no_path_of_one_machine() -> None:
    assert [(name, found[0]) for name, text in texts() if (found := PATH_OF_A_MACHINE.search(text))] == []


def test_links_are_relative_and_stay_inside() -> None:
    links = {str(path.relative_to(ROOT)): path.readlink() for path in files() if path.is_symlink()}
    assert {"bubblescope/analyzers", "bubblescope/collectors"} <= set(links)
    for name, target in links.items():
        assert not target.is_absolute()
        assert (ROOT / name).resolve().is_relative_to(ROOT)


def test_no_file_is_too_long_to_read() -> None:
    lengths = {name: text.count("\n") for name, text in texts()}
    assert {name: length for name, length in lengths.items() if length > LONGEST_FILE} == {}


def test_names_say_what_a_thing_is() -> None:
    names = {word for path in files() for word in PurePosixPath(path).relative_to(ROOT).parts}
    stems = {name.split(".")[0].lower() for name in names}
    classes = {
        word.lower()
        for _, module in modules()
        for node in ast.walk(module)
        if isinstance(node, ast.ClassDef)
        for word in re.findall("[A-Z][a-z]+", node.name)
    }
    assert (stems | classes) & VAGUE == set()


def imported(module: ast.Module) -> Iterator[tuple[ast.stmt, str]]:
    """Each absolute import as a dotted name, `from a import b` as a.b."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield from ((node, f"{node.module}.{alias.name}") for alias in node.names)


def test_data_flows_one_way() -> None:
    backwards = [
        (name, target)
        for folder, allowed in MAY_IMPORT.items()
        for name, module in modules(f"{folder}/")
        for _, target in imported(module)
        if target.split(".")[0] == "bubblescope"
        and not any(f"{target}.".startswith(f"{prefix}.") for prefix in allowed)
    ]
    assert backwards == []


def test_collectors_load_with_the_standard_library_alone() -> None:
    """A module of an engine may be imported by a function that runs inside that engine."""
    foreign = [
        (name, target)
        for name, module in modules("collectors/")
        for node, target in imported(module)
        if node in module.body and target.split(".")[0] not in sys.stdlib_module_names
    ]
    assert foreign == []
