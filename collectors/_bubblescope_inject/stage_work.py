"""The work of one stage, as the process that drives its device does it.

On a CPU spans are timed at once; on a CUDA device by events on the streams, since the host runs ahead
of it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from . import UNKNOWN, fact, stage
from .device_time import DeviceClock, DeviceSpan
from .spans import Span, Stage
from .steps import Step

#: Takes what a function returned.
End = Callable[[Any], None]
AnySpan = Span | DeviceSpan


class StageWork:
    """A stage and what it is at.

    number: its position in the pipeline.
    clock: None where the host's times are those of the device.
    inner: the module that holds its layers, if the model is built as most are.
    step: the step whose work it does; None outside of one.
    """

    def __init__(self, number: int, rank: int, device: Any, local_rank: int, model: Any) -> None:
        """device: torch's. local_rank: of the process among those of its host."""
        self.number = number
        self.inner = _inner(model)
        self.stage = _declared(number, rank, device, local_rank, self.inner)
        self.clock = DeviceClock(sys.modules["torch"], device) if device.type == "cuda" else None
        self.step: Step | None = None

    def begin(
        self,
        kind: str,
        peer: int = UNKNOWN,
        size: int = UNKNOWN,
        step: Step | None = None,
        of: Stage | None = None,
    ) -> AnySpan | None:
        """Begin a span of a step, by default that at hand; None where there is none.

        of: a part of the stage whose work it is, by default the whole.
        """
        number, phase, tokens, prefix = step or self.step or (UNKNOWN, "", 0, 0)
        if number == UNKNOWN:
            return None
        owner = of or self.stage
        span: AnySpan
        if self.clock is None:
            span = owner.span(
                kind, phase=phase, step=number, microbatch=number, tokens=tokens, prefix=prefix, peer=peer,
                bytes=size,
            )  # fmt: skip
        else:
            span = DeviceSpan(
                self.clock, owner, kind, phase=phase, step=number, microbatch=number, tokens=tokens,
                prefix=prefix, peer=peer, bytes=size,
            )  # fmt: skip
        return span.begin()

    def first_in(self, outer: AnySpan | None, kind: str) -> End | None:
        """Begin a span that takes its time from the begin of the one it lies in."""
        span = self.begin(kind)
        if span is None:
            return None

        def end(_: Any) -> None:
            span.end()
            if outer is not None:
                outer.restart()

        return end

    def part(self, kind: str, of: Stage) -> End | None:
        """Begin a part of a forward."""
        return ended(self.begin(kind, of=of))


def ended(span: AnySpan | None) -> End | None:
    """What ends a span, if there is one."""
    return None if span is None else lambda _: span.end()


def bytes_of(tensors: Mapping[str, Any]) -> int:
    """The size of the tensors among the values."""
    return sum(t.numel() * t.element_size() for t in tensors.values() if hasattr(t, "element_size"))


def _inner(model: Any) -> Any:
    names = ("start_layer", "end_layer", "layers")
    return next((m for m in model.modules() if all(hasattr(m, name) for name in names)), None)


def _declared(number: int, rank: int, device: Any, local_rank: int, inner: Any) -> Stage:
    layers = (inner.start_layer, inner.end_layer) if inner is not None else (UNKNOWN, UNKNOWN)
    if device.type != "cuda":
        return stage(number, layers=layers, rank=rank, ordinal=local_rank, device="CPU")
    known = sys.modules["torch"].cuda.get_device_properties(device)
    if hasattr(known, "uuid"):
        fact(f"uuid:{number}:{rank}", str(known.uuid))
    return stage(
        number, layers=layers, rank=rank, ordinal=_ordinal(device.index), device=known.name,
        capability=f"{known.major}.{known.minor}", memory_bytes=known.total_memory,
    )  # fmt: skip


def _ordinal(index: int) -> int:
    """The host's number of a device that this process may know by another."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    return int(visible[index]) if index < len(visible) and visible[index].strip().isdecimal() else index
