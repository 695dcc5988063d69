"""What happens in every Python process of a recorded command as it starts.

`record` puts a `sitecustomize` of its own in front of the path. Python imports the first one only, so
the one that it hides is run here.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from types import ModuleType

from . import last_words
from .imports import after_import

_NAME = "sitecustomize"


def run(own_file: str) -> None:
    """Called by our `sitecustomize`, which is in that file. What the hidden one raises is raised on."""
    try:
        _run_the_hidden(os.path.dirname(os.path.abspath(own_file)))
    finally:
        last_words.listen()  # after it: it may set the same hooks
        after_import({"sglang": _sglang_imported})


def _run_the_hidden(own_folder: str) -> None:
    path = [entry for entry in sys.path if os.path.abspath(entry) != own_folder]
    spec = PathFinder.find_spec(_NAME, path)
    if spec is not None and spec.loader is not None:
        module = sys.modules[_NAME] = module_from_spec(spec)
        spec.loader.exec_module(module)


def _sglang_imported(module: ModuleType) -> None:
    from . import sglang  # only where it is needed: this runs in every process

    sglang.register_without_plugins(module)
