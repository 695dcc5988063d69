"""The work of one stage, as the worker process that drives its device does it.

A span is begun and ended where vLLM's own functions begin and end.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from .. import fact, parts, recording
from ..device_time import DeviceSpan
from ..hooks import around, set_hook
from ..stage_work import AnySpan, End, StageWork, bytes_of, ended
from ..steps import Step
from . import layers
from .facts import compilation
from .scheduling import ATTRIBUTE

_TOKEN_BYTES = 8


class _Worker(StageWork):
    """The stage of this process, and the spans that it is at.

    step: what the scheduler told of the batch at hand; None outside of one.
    forward, receive: the open spans of that batch. sends: those that nobody has waited for yet.
    """

    def __init__(self, worker: Any) -> None:
        runner, config = worker.model_runner, worker.vllm_config
        group = sys.modules["vllm.distributed.parallel_state"].get_pp_group()
        super().__init__(group.rank_in_group, worker.rank, worker.device, worker.local_rank, runner.model)
        self.last: int = group.world_size - 1
        self.forward: AnySpan | None = None
        self.receive: AnySpan | None = None
        self.sampling: AnySpan | None = None
        self.sends: list[AnySpan] = []
        recording.safely(self._watch_model, runner.model, config)  # which may be of another version
        if self.number == 0:
            fact("runner", "V2" if type(runner).__module__.startswith("vllm.v1.worker.gpu.") else "V1")

    def _watch_model(self, model: Any, config: Any) -> None:
        inner = self.inner
        set_hook(model, "compute_logits", around(head))
        if inner is not None and self.number == 0 and compilation(config) == "none":
            # Under compilation a hook in the model would be compiled, or break that.
            any(set_hook(inner, name, around(embed)) for name in ("embed_input_ids", "get_input_embeddings"))
        if parts.wanted():
            parts.watch(self.stage, layers.layers(inner, config), layers.attention(inner, config), self.part)


_worker: _Worker | None = None
#: What failed once would fail again at every step, and leave a declared stage and a thread behind each time.
_tried = False


def step(worker: Any, scheduled: Any, *args: Any, **kwargs: Any) -> None:
    """A worker is given a step. Those of the engine's own warm-up were not scheduled and are no steps."""
    global _worker, _tried
    told: Step | None = getattr(scheduled, ATTRIBUTE, None)
    if _worker is None:
        if told is None or _tried:
            return
        _tried = True
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
    _arrived(activations.tensors)


def receive_at_once(group: Any, *args: Any, **kwargs: Any) -> End:
    """Activations are asked for, and are there when that returns."""
    receive(group)
    return _arrived


def _arrived(tensors: Any) -> None:
    if _worker is not None and _worker.receive is not None:
        _worker.receive.bytes = bytes_of(tensors)
        _worker.receive.end()
        _worker.receive = None


def send(group: Any, tensors: Any, *args: Any, **kwargs: Any) -> None:
    """Activations are sent."""
    if _worker is not None and _between_stages(group):
        span = _worker.begin("send", peer=_worker.number + 1, size=bytes_of(tensors))
        if span is not None:
            _worker.sends.append(span)


def send_at_once(group: Any, tensors: Any, *args: Any, **kwargs: Any) -> End:
    """Activations are sent, and have been when that returns."""
    send(group, tensors)
    return sends_done


def forward(*_: Any, **__: Any) -> End | None:
    """The layers of the stage run."""
    if _worker is None:
        return None
    _worker.forward = _worker.begin("forward")
    return ended(_worker.forward)


def embed(*_: Any, **__: Any) -> End | None:
    """Tokens are embedded, within the forward, or before it."""
    return _worker.first_in(_worker.forward, "embed") if _worker is not None else None


def sample(*_: Any, **__: Any) -> End | None:
    """Tokens are sampled; V2 computes the logits within."""
    if _worker is None:
        return None
    _worker.sampling = _worker.begin("sample")
    return ended(_worker.sampling)


def head(*_: Any, **__: Any) -> End | None:
    """Logits are computed."""
    return _worker.first_in(_worker.sampling, "head") if _worker is not None else None


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


def _between_stages(group: Any) -> bool:
    return str(group.unique_name).startswith("pp")
