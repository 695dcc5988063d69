"""Hooks: functions of an engine that tell what happens when they are called.

An engine's versions differ, so a hook names candidates, and what exists is chosen. Each hook that
was set is written down as a fact, `hook:NAME`, so that a recording tells which it lacks.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import CodeType, ModuleType
from typing import Any

from . import fact, recording
from .imports import after_import

Function = Callable[..., Any]
#: Makes of an engine's function one that does the same and tells.
Wrap = Callable[[Function], Function]

FACT_PREFIX = "hook:"
#: `inspect.CO_COROUTINE`, without its heavy module.
_CO_COROUTINE = 0x80


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
    recording.safely(_install, hooks)


def _install(hooks: Sequence[Hook]) -> None:
    by_module: dict[str, list[Hook]] = {}
    for hook in hooks:
        by_module.setdefault(hook.module, []).append(hook)
    after_import({module: functools.partial(_set_all, own) for module, own in by_module.items()})


def before(observe: Function) -> Wrap:
    """Call `observe` with the function's arguments before it runs."""

    def wrap(function: Function) -> Function:
        def hooked(*args: Any, **kwargs: Any) -> Any:
            recording.safely(observe, *args, **kwargs)
            return function(*args, **kwargs)

        return hooked

    return wrap


def after(observe: Function) -> Wrap:
    """Call `observe` with the function's result and arguments after it ran."""

    def wrap(function: Function) -> Function:
        def hooked(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            recording.safely(observe, result, *args, **kwargs)
            return result

        return hooked

    return wrap


def around(begin: Function) -> Wrap:
    """Call `begin` with the arguments before, and what it returned, if anything, with the result after.

    It is not called if the function raises: what was begun then remains without an end.
    """

    def wrap(function: Function) -> Function:
        def hooked(*args: Any, **kwargs: Any) -> Any:
            end = recording.safely(begin, *args, **kwargs)
            result = function(*args, **kwargs)
            if end is not None:
                recording.safely(end, result)
            return result

        return hooked

    return wrap


def around_context(begin: Function) -> Wrap:
    """As `around`, for a function that returns a context manager: the context lies in between."""

    def wrap(function: Function) -> Function:
        def hooked(*args: Any, **kwargs: Any) -> Any:
            context = function(*args, **kwargs)
            if not hasattr(type(context), "__enter__"):
                return context
            return _Context(context, lambda: recording.safely(begin, *args, **kwargs))

        return hooked

    return wrap


def listed(values: Any) -> list[Any]:
    """What the engine holds several of. Raises TypeError where a look would use it up."""
    if iter(values) is values:
        raise TypeError("can be gone through only once")
    return list(values)


def set_hook(owner: Any, name: str, wrap: Wrap) -> bool:
    """Put a hook on an attribute of a module, class or object; False if it has no function of that name."""
    kind = _kind(owner, name)
    function = getattr(owner, name, None) if kind is None else kind.__func__
    if not callable(function) or isinstance(function, type):
        return False
    if hasattr(function, "_bubblescope_hook"):
        return True
    hooked = functools.update_wrapper(_as_is_asked_for(wrap(function), function), function)
    hooked._bubblescope_hook = True  # type: ignore[attr-defined]
    setattr(owner, name, hooked if kind is None else type(kind)(hooked))
    return True


def _kind(owner: Any, name: str) -> Any:
    """What makes a function of a class static or the class's own, and would be lost; None otherwise."""
    if isinstance(owner, type):
        found = next((vars(base)[name] for base in owner.__mro__ if name in vars(base)), None)
        if isinstance(found, (staticmethod, classmethod)):
            return found
    return None


def _as_is_asked_for(hooked: Function, function: Function) -> Function:
    """The same, asynchronous where the engine's function is, should it look before it awaits."""
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType) or not code.co_flags & _CO_COROUTINE:
        return hooked

    async def awaited(*args: Any, **kwargs: Any) -> Any:
        return await hooked(*args, **kwargs)

    return awaited


def _set_all(hooks: list[Hook], module: ModuleType) -> None:
    for hook in hooks:
        recording.safely(_set, hook, module)


def _set(hook: Hook, module: ModuleType) -> None:
    if hook.unless and hasattr(*_place(module, hook.unless)):
        return
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


class _Context:
    """A context that tells; in all else it is the engine's own."""

    def __init__(self, context: Any, begin: Function) -> None:
        self._context = context
        self._begin = begin

    def __enter__(self) -> Any:
        self._end = self._begin()
        return self._context.__enter__()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def __exit__(self, *error: Any) -> Any:
        result = self._context.__exit__(*error)
        if self._end is not None and error[0] is None:
            recording.safely(self._end, result)
        return result
