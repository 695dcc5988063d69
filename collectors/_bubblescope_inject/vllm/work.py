"""The work of one stage, as the worker process that drives its device does it.

A span is begun and ended where vLLM's own functions begin and end. On a CPU they are timed at
once; on a CUDA device by events on the streams, since the host runs ahead of it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from .. import UNKNOWN, fact, parts, stage
from ..device_time import DeviceClock, DeviceSpan
from ..hooks import around, set_hook
from ..spans import Span, Stage
from . import layers
from .facts import compilation
from .scheduling import ATTRIBUTE, Step

End = Callable[[Any], None]
_TOKEN_BYTES = 8


class _Worker:
    """What this process knows of its stage and of the step it is at.

    clock: None where the host's times are those of the device.
    step: what the scheduler told of the batch at hand; None outside of one.
    forward, receive: the open spans of that batch. sends: those that nobody has waited for yet.
    """

    def __init__(self, worker: Any) -> None:
        runner, config = worker.model_runner, worker.vllm_config
        group = sys.modules["vllm.distributed.parallel_state"].get_pp_group()
        self.number: int = group.rank_in_group
        self.last: int = group.world_size - 1
        inner = _inner(runner.model)
        self.stage = _declared(worker, self.number, inner)
        torch = sys.modules["torch"]
        self.clock = DeviceClock(torch, worker.device) if worker.device.type == "cuda" else None
        self.step: Step | None = None
        self.forward: Span | DeviceSpan | None = None
        self.receive: Span | DeviceSpan | None = None
        self.sampling: Span | DeviceSpan | None = None
        self.sends: list[Span | DeviceSpan] = []
        set_hook(runner.model, "compute_logits", around(head))
        if inner is not None and self.number == 0 and compilation(config) == "none":
            # Under compilation a hook in the model would be compiled, or break that.
            any(set_hook(inner, name, around(embed)) for name in ("embed_input_ids", "get_input_embeddings"))
        if parts.wanted():
            parts.watch(self.stage, layers.layers(inner, config), layers.attention(inner, config), self.part)
        if self.number == 0:
            fact("runner", "V2" if type(runner).__module__.startswith("vllm.v1.worker.gpu.") else "V1")

    def begin(
        self, kind: str, peer: int = UNKNOWN, size: int = UNKNOWN, of: Stage | None = None
    ) -> Span | DeviceSpan | None:
        """Begin a span of the step at hand, of the whole stage or a part; None where there is no step."""
        if self.step is None:
            return None
        stage = of or self.stage
        number, phase, tokens, prefix = self.step
        span: Span | DeviceSpan
        if self.clock is None:
            span = stage.span(
                kind, phase=phase, step=number, microbatch=number, tokens=tokens, prefix=prefix, peer=peer,
                bytes=size,
            )  # fmt: skip
        else:
            span = DeviceSpan(
                self.clock, stage, kind, phase=phase, step=number, microbatch=number, tokens=tokens,
                prefix=prefix, peer=peer, bytes=size,
            )  # fmt: skip
        return span.begin()

    def part(self, kind: str, of: Stage) -> End | None:
        """Begin a part of a forward."""
        return _ended(self.begin(kind, of=of))


_worker: _Worker | None = None


def step(worker: Any, scheduled: Any, *args: Any, **kwargs: Any) -> None:
    """A worker is given a step. Those of the engine's own warm-up were not scheduled and are no steps."""
    global _worker
    told: Step | None = getattr(scheduled, ATTRIBUTE, None)
    if _worker is None:
        if told is None:
            return
        _worker = _Worker(worker)
    _worker.step, _worker.forward, _worker.receive, _worker.sampling = told, None, None, None


def step_done(*_: Any, **__: Any) -> None:
    """Nothing more is done for the step."""
    if _worker is not None:
        _worker.step = None


def sends_done(*_: Any, **__: Any) -> None:
    """The worker has waited for what it had sent before."""
    if _worker is not None:
        while _worker.sends:
            _worker.sends.pop().end()


def receive(group: Any, *args: Any, **kwargs: Any) -> None:
    """Activations are asked for; `received` tells when they are there."""
    if _worker is not None and _between_stages(group):
        sends_done()
        _worker.receive = _worker.begin("recv", peer=_worker.number - 1)


def received(_: Any, activations: Any) -> None:
    """The activations are there, also those parts that other ranks of the stage received."""
    if _worker is not None and _worker.receive is not None:
        _worker.receive.bytes = _bytes(activations.tensors)
        _worker.receive.end()
        _worker.receive = None


def send(group: Any, tensors: Any, *args: Any, **kwargs: Any) -> None:
    """Activations are sent."""
    if _worker is not None and _between_stages(group):
        span = _worker.begin("send", peer=_worker.number + 1, size=_bytes(tensors))
        if span is not None:
            _worker.sends.append(span)


def forward(*_: Any, **__: Any) -> End | None:
    """The layers of the stage run."""
    if _worker is None:
        return None
    _worker.forward = _worker.begin("forward")
    return _ended(_worker.forward)


def embed(*_: Any, **__: Any) -> End | None:
    """Tokens are embedded, within the forward, or before it."""
    return _first_in(_worker.forward, "embed") if _worker is not None else None


def sample(*_: Any, **__: Any) -> End | None:
    """Tokens are sampled; V2 computes the logits within."""
    if _worker is None:
        return None
    _worker.sampling = _worker.begin("sample")
    return _ended(_worker.sampling)


def head(*_: Any, **__: Any) -> End | None:
    """Logits are computed."""
    return _first_in(_worker.sampling, "head") if _worker is not None else None


def receive_tokens(handler: Any, batch: Any, *args: Any, **kwargs: Any) -> End | None:
    """Sampled tokens are asked for, on a stream of their own."""
    return _tokens(handler, batch, "recv", lambda worker: [worker.last])


def send_tokens(handler: Any, tokens: Any, *args: Any, **kwargs: Any) -> End | None:
    """Sampled tokens are sent to all other stages, on a stream of their own."""
    return _tokens(handler, args[-1], "send", lambda worker: list(range(worker.last)))


def _tokens(handler: Any, batch: Any, kind: str, peers: Callable[[_Worker], list[int]]) -> End | None:
    needed = sys.modules[type(handler).__module__].compute_need_sampled_mask
    if _worker is None or _worker.clock is None or needed(batch) is None:
        return None
    size = _TOKEN_BYTES * batch.num_reqs
    spans = [_worker.begin(kind, peer=peer, size=size) for peer in peers(_worker)]

    def passed_on(_: Any) -> None:
        for span in spans:
            if isinstance(span, DeviceSpan):
                span.end(handler.broadcast_stream)

    return passed_on


def _first_in(outer: Span | DeviceSpan | None, kind: str) -> End | None:
    """A span that takes its time from the begin of the one it lies in."""
    assert _worker is not None
    span = _worker.begin(kind)
    if span is None:
        return None

    def end(_: Any) -> None:
        span.end()
        if outer is not None:
            outer.restart()

    return end


def _ended(span: Span | DeviceSpan | None) -> End | None:
    return None if span is None else lambda _: span.end()


def _between_stages(group: Any) -> bool:
    return str(group.unique_name).startswith("pp")


def _bytes(tensors: Any) -> int:
    return sum(t.numel() * t.element_size() for t in tensors.values() if hasattr(t, "element_size"))


def _inner(model: Any) -> Any:
    """The module that holds the layers of this stage, if the model is built as most are."""
    names = ("start_layer", "end_layer", "layers")
    return next((m for m in model.modules() if all(hasattr(m, name) for name in names)), None)


def _declared(worker: Any, number: int, inner: Any) -> Stage:
    layers = (inner.start_layer, inner.end_layer) if inner is not None else (UNKNOWN, UNKNOWN)
    if worker.device.type != "cuda":
        return stage(number, layers=layers, rank=worker.rank, ordinal=worker.local_rank, device="CPU")
    device = sys.modules["torch"].cuda.get_device_properties(worker.device)
    return stage(
        number, layers=layers, rank=worker.rank, ordinal=_ordinal(worker.device.index), device=device.name,
        capability=f"{device.major}.{device.minor}", memory_bytes=device.total_memory,
    )  # fmt: skip


def _ordinal(index: int) -> int:
    """The host's number of a device that this process may know by another."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    return int(visible[index]) if index < len(visible) and visible[index].strip().isdecimal() else index
