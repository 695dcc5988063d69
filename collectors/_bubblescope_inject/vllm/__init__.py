"""Records vLLM. Loaded by vLLM itself, as a plugin, in every process that it starts."""

from __future__ import annotations

from .. import hooks
from .targets import HOOKS


def register() -> None:
    """Set the hooks that this process needs."""
    hooks.install(HOOKS)
