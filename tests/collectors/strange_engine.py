"""A stand-in for an engine of any version: its hooked functions, which take and return anything.

Runs inside a recorded program. What a real engine holds is replaced by `Strange`: objects whose attributes
are missing, raise, or are of other types than the collectors know.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any


class Strange:
    """Has every attribute, each of any kind, or raises; two looks at one attribute may differ."""

    def __init__(self, random: random.Random, depth: int = 0) -> None:
        self.__dict__["_random"], self.__dict__["_depth"] = random, depth

    def __getattr__(self, name: str) -> Any:
        chosen: random.Random = self._random
        if chosen.random() < 0.15:
            raise chosen.choice([AttributeError, RuntimeError, KeyError, RecursionError, MemoryError])(name)
        return value(chosen, self._depth + 1)

    def __setattr__(self, name: str, _: Any) -> None:
        if self._random.random() < 0.3:
            raise TypeError(name)

    def __call__(self, *_: Any, **__: Any) -> Any:
        return self.__getattr__("called")

    def __iter__(self) -> Iterator[Any]:
        return iter([value(self._random, self._depth + 1) for _ in range(self._random.randrange(3))])

    def __len__(self) -> int:
        return int(self._random.choice([0, 1, 3]))

    def __bool__(self) -> bool:
        if self._random.random() < 0.2:
            raise ValueError("neither true nor false, as a tensor of several numbers is")
        return self._random.random() < 0.8

    def __getitem__(self, key: Any) -> Any:
        return self.__getattr__("item")

    def __str__(self) -> str:
        return str(self._random.choice(["pp:0", "tp:0", "cuda", "cpu", "\udcff\x1b", "x" * 70_000]))

    def __int__(self) -> int:
        return int(self._random.choice([0, 1, 1 << 70]))


class Once:
    """Can be gone through once; an engine would miss what somebody else took out of it."""

    def __init__(self) -> None:
        self.taken = 0

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        self.taken += 1
        raise StopIteration


def value(random: random.Random, depth: int = 0) -> Any:
    """Anything that an attribute, an argument or a result may turn out to be."""
    plain: list[Any] = [
        None, True, 0, -1, 3, 1 << 70, float("nan"), 1e300, "", "pp:0", "cuda", "\udcff\x1b[31m",
        "x" * 70_000, b"\xff\xfe", [], {}, (), [1, None], {"next_token_ids": 1}, object(), int,
        ValueError("a value"), (1, "prefill", 2, 3), ("a", 2, "b", None),
    ]  # fmt: skip
    if depth > 4 or random.random() < 0.3:
        return random.choice(plain)
    inner = Strange(random, depth)
    return random.choice([inner, inner, inner, [inner, inner], {"a": inner, "next_token_ids": inner}])


class Engine:
    """The hooked functions of one version. `calls` holds what each call was given; `answer` is returned."""

    def __init__(self, targets: Mapping[str, str | None]) -> None:
        self.answer: Any = None
        self.given: tuple[Any, ...] = ()
        self.functions: dict[str, Callable[..., Any]] = {}
        self._owners: dict[str, Any] = {}
        for target, arguments in targets.items():
            if arguments is not None:
                self._add(*target.split(":"))

    def _add(self, module: str, function: str) -> None:
        for name in (module.rpartition(".")[0], module):
            sys.modules.setdefault(name, ModuleType(name))
        owner: Any = sys.modules[module]
        of_class, _, name = function.rpartition(".")
        if of_class:
            if not hasattr(owner, of_class):
                setattr(owner, of_class, type(of_class, (), {"__module__": module}))
            owner = getattr(owner, of_class)

        def stand_in(*args: Any, **kwargs: Any) -> Any:
            self.given = (*args, *kwargs.values())
            if isinstance(self.answer, ZeroDivisionError):
                raise self.answer
            return self.answer

        setattr(owner, name, stand_in)
        self._owners[f"{module}:{function}"] = owner, name

    def targets(self) -> list[str]:
        return list(self._owners)

    def call(self, target: str, *args: Any, **kwargs: Any) -> Any:
        """Call a function as the engine would, through whatever was put in its place."""
        owner, name = self._owners[target]
        return getattr(owner, name)(*args, **kwargs)
