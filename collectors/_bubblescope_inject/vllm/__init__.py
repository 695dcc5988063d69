"""Records vLLM. Loaded by vLLM itself, as a plugin, in every process that it starts."""

from __future__ import annotations

from .. import hooks, recording
from .targets import HOOKS

_registered = False


def register() -> None:
    """Set the hooks that this process needs; nothing where nothing is to be recorded."""
    global _registered
    if recording.writer is None or _registered:
        return
    _registered = True
    try:
        hooks.install(HOOKS)
    except Exception as error:
        recording.lost(error)
