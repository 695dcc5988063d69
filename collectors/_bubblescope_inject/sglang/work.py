"""The work of one stage: what the scheduler of its device decides, waits for, runs and sends.

One turn of the scheduler's loop picks a batch, receives its activations, runs it, passes on the tokens
of an earlier batch, receives those of the next, and sends the activations of its own.
"""

from __future__ import annotations

import itertools
import sys
from time import monotonic_ns
from typing import Any

from .. import parts, recording
from ..hooks import around, listed, set_hook
from ..stage_work import AnySpan, End, StageWork, bytes_of, ended
from ..steps import Step
from . import batches, facts

#: Modules of a model.
EMBEDDING = "sglang.srt.layers.vocab_parallel_embedding:VocabParallelEmbedding.forward"
HEAD = "sglang.srt.layers.logits_processor:LogitsProcessor.forward"
#: A message with this among its tensors passes tokens on, not activations.
_TOKENS = "next_token_ids"


class _Stage(StageWork):
    """The stage of this process, and the messages that it is at.

    runner: what runs the model; others of this process run a draft model.
    awaited: the step whose message is received next. answering, passing: the steps whose tokens are
    received and sent in this turn.
    forward: the open span of the forward at hand.
    sends: what is being sent, by the last piece of work that somebody will wait for.
    """

    def __init__(self, scheduler: Any) -> None:
        self.runner = scheduler.tp_worker.model_runner
        group = scheduler.pp_group
        number, self.stages = group.rank_in_group, group.world_size
        torch = sys.modules["torch"]
        device = torch.device(str(self.runner.device).partition(":")[0])
        if device.type == "cuda":
            device = torch.device("cuda", torch.cuda.current_device())
        super().__init__(number, group.rank, device, group.local_rank, self.runner.model)
        self.awaited: Step | None = None
        self.answering: Step | None = None
        self.passing: Step | None = None
        self.forward: AnySpan | None = None
        self.sends: list[tuple[Any, AnySpan, Any]] = []
        # Settings and model may be of another version.
        if number == 0:
            recording.safely(facts.tell, scheduler)
        recording.safely(self._watch_model)

    def _watch_model(self) -> None:
        if facts.compilation(self.runner) != "none":
            return  # a hook in the model would be compiled, or break that
        for target, observe in ((EMBEDDING, embed), (HEAD, head)):
            of_class, _, name = target.partition(":")[2].partition(".")
            found = (module for module in self.runner.model.modules() if type(module).__name__ == of_class)
            for module in itertools.islice(found, 1):
                set_hook(module, name, around(observe))
        if parts.wanted() and self.inner is not None:
            layers = range(self.inner.start_layer, self.inner.end_layer)
            parts.watch(
                self.stage, [(self.inner.layers[layer], "forward", layer) for layer in layers], (), self.part
            )

    def stream(self) -> Any:
        """What is put on the device now goes there; None where there are no streams."""
        return sys.modules["torch"].cuda.current_stream() if self.clock is not None else None


_stage: _Stage | None = None
#: What failed once would fail again at every batch, and leave a declared stage and a thread behind each time.
_tried = False


def schedule(scheduler: Any, *args: Any, **kwargs: Any) -> End:
    """The scheduler looks for a batch; the result takes what it found."""
    begin_ns = monotonic_ns()

    def decided(plan: Any) -> None:
        batch = batches.chosen(plan)
        if batch is None:
            if _stage is not None:
                _stage.step = None
            return
        step = batches.numbered(batch)
        stage = _declared(scheduler)
        if stage is None:
            return
        stage.step = step
        if step is not None:
            number, phase, tokens, prefix = step
            stage.stage.measured(
                "schedule", begin_ns, monotonic_ns(), clock="host", phase=phase, step=number,
                microbatch=number, tokens=tokens, prefix=prefix,
            )  # fmt: skip

    return decided


def _declared(scheduler: Any) -> _Stage | None:
    global _stage, _tried
    if _stage is None and not _tried:
        _tried = True
        _stage = _Stage(scheduler)
    return _stage


def await_activations(*_: Any, **__: Any) -> None:
    """The activations of the batch at hand are received next."""
    if _stage is not None:
        _stage.awaited = _stage.step


def exchange_tokens(
    scheduler: Any, sent_slot: int, received_slot: int, slots: Any, *args: Any, **kwargs: Any
) -> None:
    """The tokens of one batch are passed on, and those of another received.

    The last stage sends what it sampled; the others send what they received one turn before.
    """
    if _stage is None:
        return
    last = _stage.number == _stage.stages - 1
    _stage.passing = batches.step_of(slots[sent_slot]) if last else _stage.answering
    _stage.answering = batches.step_of(slots[received_slot])


def await_tokens(*_: Any, **__: Any) -> None:
    """Tokens are received next."""
    if _stage is not None:
        _stage.awaited = _stage.answering


def receive(group: Any, *args: Any, **kwargs: Any) -> End | None:
    """A message is received from the stage before, or from the last one by the first."""
    if _stage is None or not _between_stages(group) or _stage.awaited is None:
        return None
    stream = _stage.stream()
    span = _stage.begin("recv", (_stage.number - 1) % _stage.stages, step=_stage.awaited)

    def received(tensors: Any) -> None:
        if span is not None:
            span.bytes = bytes_of(tensors)
            span.end(stream)

    return received


def send(group: Any, tensors: Any = None, *args: Any, **kwargs: Any) -> End | None:
    """A message is sent to the next stage, or to the first one by the last."""
    tensors = kwargs.get("tensor_dict", tensors)
    if _stage is None or not _between_stages(group) or not isinstance(tensors, dict):
        return None
    stage, stream = _stage, _stage.stream()
    step = stage.passing if _TOKENS in tensors else stage.step
    if step is None:
        return None
    span = stage.begin("send", (stage.number + 1) % stage.stages, bytes_of(tensors), step)

    def handed_over(work: Any) -> None:
        if span is not None and isinstance(work, list) and work:
            stage.sends.append((work[-1], span, stream))
        elif span is not None:
            span.end(stream)

    return handed_over


def wait_for_sends(scheduler: Any, work: Any = (), *args: Any, **kwargs: Any) -> End | None:
    """What was sent is waited for."""
    work = kwargs.get("work", work)
    if _stage is None or not work or not _stage.sends:
        return None
    stage = _stage
    pieces = {id(piece) for piece in listed(work)}
    over = [sending for sending in stage.sends if id(sending[0]) in pieces]

    def waited(_: Any) -> None:
        stage.sends = [sending for sending in stage.sends if id(sending[0]) not in pieces]
        for _, span, stream in over:
            span.end(stream)

    return waited if over else None


def forward(runner: Any, *_: Any, **__: Any) -> End | None:
    """The layers of the stage run; on the last one the head, too, which ends the forward before it."""
    if _stage is None or runner is not _stage.runner:
        return None
    _stage.forward = _stage.begin("forward")
    return _forward_done


def _forward_done(_: Any) -> None:
    if _stage is not None and _stage.forward is not None:
        _stage.forward.end()
        _stage.forward = None


def embed(*_: Any, **__: Any) -> End | None:
    """Tokens are embedded, within the forward."""
    return _stage.first_in(_stage.forward, "embed") if _stage is not None and _stage.number == 0 else None


def head(*_: Any, **__: Any) -> End | None:
    """Logits are computed."""
    if _stage is None or _stage.forward is None:
        return None
    _forward_done(None)
    return ended(_stage.begin("head"))


def sample(runner: Any, *_: Any, **__: Any) -> End | None:
    """Tokens are sampled."""
    return ended(_stage.begin("sample")) if _stage is not None and runner is _stage.runner else None


def _between_stages(group: Any) -> bool:
    return str(group.unique_name).startswith("pp")
