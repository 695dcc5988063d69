"""The parts of a stage's forward, each a span of its own, where they are asked for.

They lie within the forward's span. What is asked for and what an engine lets be seen may differ, so
the collector tells which it was.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from . import fact, recording
from .hooks import around, set_hook
from .spans import Stage

VARIABLE = "BUBBLESCOPE_DETAIL"
LAYERS, ATTENTION, STAGES = "layers", "attention", "stages"
#: The fact that tells the finest that is recorded: layers, their attention, or stages as a whole.
FACT = "detail"

#: An object, the name of its function that does the work, and the layer whose work it is.
Part = tuple[Any, str, int]
#: Begins a span of a kind and a part of a stage; what it returns, if anything, ends that.
Begin = Callable[[str, Stage], Callable[[Any], None] | None]


def wanted() -> bool:
    """Whether the parts of a forward are asked for."""
    return os.environ.get(VARIABLE) == LAYERS


def watch(stage: Stage, layers: Iterable[Part], attention: Iterable[Part], begin: Begin) -> None:
    """Have each layer of a stage tell when it runs; where there are none, the attention of each."""
    detail = recording.safely(_watched, stage, layers, attention, begin)
    if detail is not None:
        fact(FACT, detail)


def _watched(stage: Stage, layers: Iterable[Part], attention: Iterable[Part], begin: Begin) -> str:
    for finest, kind, parts in ((LAYERS, "layer", layers), (ATTENTION, "attention", attention)):
        hooked = [
            set_hook(owner, name, around(_begins(begin, kind, stage.part(layer))))
            for owner, name, layer in parts
        ]
        if any(hooked):
            return finest
    return STAGES


def _begins(begin: Begin, kind: str, part: Stage) -> Callable[..., Callable[[Any], None] | None]:
    return lambda *_, **__: begin(kind, part)
