"""One stage of the pipeline, as its own process. The first one also schedules."""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection

from bubblescope import __version__
from bubblescope.collectors import _bubblescope_inject as recorder
from bubblescope.demo import channel, schedule
from bubblescope.demo.channel import Microbatch
from bubblescope.demo.model import Array, Part, Shape, prompt


@dataclass(frozen=True)
class Answer:
    """What came of a request, and how long its first token took."""

    request: int
    token: int
    ttft_ns: int


@dataclass(frozen=True)
class Place:
    """Which stage this is of which pipeline, and the pipes to the others.

    partition: layers per stage.
    before, after: activations come from `before` (None: the first stage), go to `after` (the last).
    tokens: from the last stage to the first; None if they are one.
    requests: prompt tokens of each, in the order in which they are made.
    asked: of the first stage: numbers of requests from whoever makes them, and answers to them.
    core: the core that is this stage's alone, as an engine's stage has a GPU. It is kept busy while the
        stage waits for a message of a request, as a GPU is. None where there are not enough.
    """

    number: int
    partition: tuple[int, ...]
    requests: tuple[int, ...]
    before: Connection | None
    after: Connection | None
    tokens: Connection | None
    asked: Connection | None
    core: int | None


def run(place: Place) -> None:
    """Be a stage until all requests are answered, or another stage has ended."""
    if place.core is not None:
        os.sched_setaffinity(0, {place.core})
    try:
        stage = _Stage(place)
        if place.asked is not None:
            stage.serve(place.asked)
        if place.before is not None:
            stage.follow(place.before)
    except (EOFError, ConnectionError, KeyboardInterrupt):
        sys.exit(1)


class _Stage:
    def __init__(self, place: Place) -> None:
        begin = sum(place.partition[: place.number])
        layers = begin, begin + place.partition[place.number]
        self._place = place
        self._shape = Shape(sum(place.partition))
        self._part = Part(self._shape, *layers)
        self._recorder = recorder.stage(
            place.number, layers=layers, rank=place.number, ordinal=place.number, device="CPU"
        )

    def serve(self, asked: Connection) -> None:
        """As the first stage: compute all requests, each when it is made, and tell the answers."""
        self._tell_facts()
        numbers = itertools.count()
        times = []
        for _ in self._place.requests:
            request: int = asked.recv()
            size = self._place.requests[request]
            arrival_ns = time.monotonic_ns()
            recorder.request_arrived(str(request), prompt_tokens=size, warmup=request == 0)
            token = self._prefill(request, size, numbers)
            recorder.request_first_token(str(request))
            recorder.request_ended(str(request), output_tokens=1)
            end_ns = time.monotonic_ns()
            times.append((arrival_ns, end_ns))
            asked.send(Answer(request, token, end_ns - arrival_ns))
        recorder.fact("window_ns", [times[1][0], times[-1][1]])

    def _prefill(self, request: int, size: int, numbers: Iterator[int]) -> int:
        """Compute a prompt chunk by chunk; returns the first token."""
        tokens = prompt(self._shape, request, size)
        token = None
        for prefix in range(0, size, schedule.CHUNK_TOKENS):
            number = next(numbers)
            with self._recorder.span("schedule", phase="prefill", step=number, microbatch=number):
                batch = schedule.next_chunk(number, request, size, prefix)
            with self._span("embed", batch):
                activations = self._part.embed(tokens[prefix : prefix + batch.tokens])
            token = self._compute(batch, activations)
        if self._place.tokens is None:
            assert token is not None  # the only stage samples itself
            return token
        with self._span("recv", batch, peer=len(self._place.partition) - 1) as span:
            self._wait(self._place.tokens)
            token = channel.receive_token(self._place.tokens)
            span.bytes = channel.TOKEN_BYTES
        return token

    def follow(self, before: Connection) -> None:
        """As a later stage: compute every microbatch that the stage before sends."""
        open_request = False
        for number in range(schedule.microbatches(self._place.requests)):
            with self._recorder.span(
                "recv", phase="prefill", step=number, microbatch=number, peer=self._place.number - 1
            ) as span:
                if open_request:
                    self._wait(before)
                batch, activations = channel.receive_activations(before, self._shape.hidden_size)
                span.tokens, span.prefix, span.bytes = batch.tokens, batch.prefix, activations.nbytes
            open_request = not batch.last
            token = self._compute(batch, activations)
            if token is not None and self._place.tokens is not None:
                with self._span("send", batch, peer=0) as span:
                    channel.send_token(self._place.tokens, token)
                    span.bytes = channel.TOKEN_BYTES

    def _wait(self, pipe: Connection) -> None:
        """Spin until something arrives. Where a stage does not, receiving itself waits, asleep."""
        if self._place.core is not None:
            channel.spin(pipe)

    def _compute(self, batch: Microbatch, activations: Array) -> int | None:
        """Compute this stage's layers and pass on the result; the last stage returns the token of a
        prompt that is complete."""
        place = self._place
        with self._span("forward", batch):
            activations = self._part.forward(activations, batch.prefix)
        if place.after is not None:
            with self._span("send", batch, peer=place.number + 1) as span:
                channel.send_activations(place.after, batch, activations)
                span.bytes = activations.nbytes
            return None
        if not batch.last:
            return None
        with self._span("head", batch):
            logits = self._part.head(activations)
        with self._span("sample", batch):
            return self._part.sample(logits)

    def _span(self, kind: str, batch: Microbatch, peer: int = recorder.UNKNOWN) -> recorder.Span:
        return self._recorder.span(
            kind, phase="prefill", step=batch.number, microbatch=batch.number, tokens=batch.tokens,
            prefix=batch.prefix, peer=peer,
        )  # fmt: skip

    def _tell_facts(self) -> None:
        recorder.fact("engine", "bubblescope-demo")
        recorder.fact("engine_version", __version__)
        recorder.fact("partition", list(self._place.partition))
        recorder.fact("world_size", len(self._place.partition))
        recorder.fact("model", asdict(self._shape))
        recorder.fact("chunk_tokens", schedule.CHUNK_TOKENS)
