"""Which version of an engine is installed, without starting it."""

from __future__ import annotations

import importlib.metadata
import re
import shutil
from pathlib import Path

_DISTRIBUTION = re.compile(r"(vllm|sglang)-([^-]+)\.dist-info")


def installed_version(engine: str, program: str | None = None) -> str | None:
    """The version in the environment of `program`, or in ours where none is named; None if not found.

    llama.cpp keeps its version in the program alone, which is not started here.
    """
    if engine == "llama.cpp":
        return None
    if program is not None:
        return _beside(engine, program)
    try:
        return importlib.metadata.version(engine)
    except importlib.metadata.PackageNotFoundError:
        return None


def _beside(engine: str, program: str) -> str | None:
    """From the packages of the environment that the program, or its interpreter, lies in.

    The link that a virtual environment's interpreter is must not be followed: it leads out of it.
    """
    found = shutil.which(program)
    if found is None:
        return None
    prefix = Path(found).parent.parent
    for pattern in ("lib/python3*/site-packages", "lib/python3*/dist-packages"):
        for folder in sorted(prefix.glob(f"{pattern}/{engine}-*.dist-info")):
            name = _DISTRIBUTION.fullmatch(folder.name)
            if name and name[1] == engine:
                return name[2]
    return None
