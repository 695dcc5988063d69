"""Doing something with a module once it is there, without importing it: engines' modules are heavy."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from . import recording

Callback = Callable[[ModuleType], None]


def after_import(callbacks: Mapping[str, Callback]) -> None:
    """Call each callback once with its module: now if it is imported already, else when it will be."""
    later = {name: callback for name, callback in callbacks.items() if name not in sys.modules}
    for name in callbacks.keys() - later.keys():
        recording.safely(callbacks[name], sys.modules[name])
    sys.meta_path.insert(0, _Watch(later))


class _Watch(MetaPathFinder):
    """Finds nothing itself; it only has the loaders of the watched modules tell when they are done."""

    def __init__(self, callbacks: dict[str, Callback]) -> None:
        self._callbacks = callbacks

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        callback = self._callbacks.get(fullname)
        if callback is None:
            return None
        # Those after this one only: another like it may watch the same module.
        after = sys.meta_path.index(self) + 1 if self in sys.meta_path else len(sys.meta_path)
        for finder in sys.meta_path[after:]:
            find = getattr(finder, "find_spec", None)  # as old a finder as lacks it is passed over
            spec: ModuleSpec | None = None if find is None else find(fullname, path, target)
            if spec is not None:
                _tell_when_loaded(spec, callback)
                return spec
        return None


def _tell_when_loaded(spec: ModuleSpec, callback: Callback) -> None:
    loader = spec.loader
    load = getattr(loader, "exec_module", None)
    if loader is None or load is None or isinstance(loader, type):  # the latter: that of all built-in modules
        return

    def exec_module(module: ModuleType) -> None:
        is_watched = module.__name__ == spec.name  # all modules of a zip file have one loader
        load(module)
        if is_watched:
            recording.safely(callback, module)

    # On this loader only; where it takes no attributes the module is left alone.
    with contextlib.suppress(AttributeError):
        loader.exec_module = exec_module  # type: ignore[method-assign]
