"""Records SGLang, in every process that it starts.

Since 0.5.11 SGLang loads this itself, as a plugin. Before, it is set up as Python starts.
"""

from __future__ import annotations

import os
from types import ModuleType

from .. import hooks
from .targets import HOOKS


def register() -> None:
    """Set the hooks that this process needs."""
    hooks.install(HOOKS)


def register_without_plugins(package: ModuleType) -> None:
    """Do so now that the package of SGLang is imported, if it is too old to have plugins."""
    folder = next(iter(package.__path__), "")
    if not os.path.isdir(os.path.join(folder, "srt", "plugins")):
        register()
