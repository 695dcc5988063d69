"""Hooks: functions of an engine that tell what happens when they are called.

An engine's versions differ, so a hook names candidates, and what exists is chosen. Each hook that
was set is written down as a fact, `hook:NAME`, so that a recording tells which it lacks.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from . import fact, recording
from .imports import after_import

Function = Callable[..., Any]
#: Makes of an engine's function one that does the same and tells.
Wrap = Callable[[Function], Function]

FACT_PREFIX = "hook:"


@dataclass(frozen=True)
class Hook:
    """Something that is to be known.

    name: what, in a word or two; hooks of one name stand in for each other.
    module, functions: where it can be seen; of the functions, `NAME` or `Class.NAME`, the first
        that exists.
    unless: a function that makes it needless where it exists. also: what else it tells.
    """

    name: str
    module: str
    functions: tuple[str, ...]
    wrap: Wrap
    unless: str = ""
    also: str = ""


#: Those that this process has set, or sets as their modules are imported.
_installed: list[Sequence[Hook]] = []


def install(hooks: Sequence[Hook]) -> None:
    """Set the hooks, once, now or as their modules are imported; nothing where nothing is recorded."""
    if recording.writer is None or hooks in _installed:
        return
    _installed.append(hooks)
    _safely(_install, hooks)


def _install(hooks: Sequence[Hook]) -> None:
    by_module: dict[str, list[Hook]] = {}
    for hook in hooks:
        by_module.setdefault(hook.module, []).append(hook)
    after_import({module: functools.partial(_set_all, own) for module, own in by_module.items()})


def before(observe: Function) -> Wrap:
    """Call `observe` with the function's arguments before it runs."""

    def wrap(function: Function) -> Function:
        def hooked(*args: Any, **kwargs: Any) -> Any:
            _safely(observe, *args, **kwargs)
            return function(*args, **kwargs)

        return hooked

    return wrap


def after(observe: Function) -> Wrap:
    """Call `observe` with the function's result and arguments after it ran."""

    def wrap(function: Function) -> Function:
        def hooked(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            _safely(observe, result, *args, **kwargs)
            return result

        return hooked

    return wrap


def around(begin: Function) -> Wrap:
    """Call `begin` with the arguments before, and what it returned, if anything, with the result after.

    It is not called if the function raises: what was begun then remains without an end.
    """

    def wrap(function: Function) -> Function:
        def hooked(*args: Any, **kwargs: Any) -> Any:
            end = _safely(begin, *args, **kwargs)
            result = function(*args, **kwargs)
            if end is not None:
                _safely(end, result)
            return result

        return hooked

    return wrap


def around_context(begin: Function) -> Wrap:
    """As `around`, for a function that returns a context manager: the context lies in between."""

    def wrap(function: Function) -> Function:
        def hooked(*args: Any, **kwargs: Any) -> Any:
            return _Context(function(*args, **kwargs), lambda: _safely(begin, *args, **kwargs))

        return hooked

    return wrap


def set_hook(owner: Any, name: str, wrap: Wrap) -> bool:
    """Put a hook on an attribute of a module, class or object; False if it has none of that name."""
    function = getattr(owner, name, None)
    if function is None or hasattr(function, "_bubblescope_hook"):
        return function is not None
    hooked = functools.update_wrapper(wrap(function), function)
    hooked._bubblescope_hook = True  # type: ignore[attr-defined]
    setattr(owner, name, hooked)
    return True


def _set_all(hooks: list[Hook], module: ModuleType) -> None:
    for hook in hooks:
        if hook.unless and hasattr(*_place(module, hook.unless)):
            continue
        for function in hook.functions:
            owner, name = _place(module, function)
            if owner is not None and set_hook(owner, name, hook.wrap):
                for told in filter(None, (hook.name, hook.also)):
                    fact(FACT_PREFIX + told, f"{hook.module}:{function}")
                break


def _place(module: ModuleType, function: str) -> tuple[Any, str]:
    """The module or class that holds a function, None without it, and the function's name in it."""
    of_class, _, name = function.rpartition(".")
    return (getattr(module, of_class, None) if of_class else module), name


def _safely(observe: Function, *args: Any, **kwargs: Any) -> Any:
    try:
        return observe(*args, **kwargs)
    except Exception as error:
        recording.lost(error)
        return None


class _Context:
    def __init__(self, context: Any, begin: Function) -> None:
        self._context = context
        self._begin = begin

    def __enter__(self) -> Any:
        self._end = self._begin()
        return self._context.__enter__()

    def __exit__(self, *error: Any) -> Any:
        result = self._context.__exit__(*error)
        if self._end is not None and error[0] is None:
            _safely(self._end, result)
        return result
