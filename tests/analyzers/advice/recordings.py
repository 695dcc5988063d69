"""Recordings of pipelines whose costs per layer are known, played by the simulator of the tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bubblescope.analyzers.advice.occupancy import Occupancy
from bubblescope.trace.frames import REQUESTS, SPANS, table
from bubblescope.trace.model import Trace
from tests.pipelines.engine import Engine, Step
from tests.pipelines.execution import Execution, play
from tests.pipelines.recording import ORIGIN_NS, recorded_as_spans

#: Receives are posted at once, and every message finds room: no stage waits for a later one.
UNHINDERED = Engine(link=300, early=True, buffers=1000)


@dataclass(frozen=True)
class Chunk:
    """tokens and prefix of one microbatch; `at`: when its request arrives."""

    tokens: int
    prefix: int
    at: int = 0


def chunks(prompt: int, size: int, at: int = 0) -> list[Chunk]:
    """A prompt in chunks of one size, the last one shorter."""
    return [Chunk(min(size, prompt - done), done, at) for done in range(0, prompt, size)]


@dataclass(frozen=True)
class Model:
    """Costs in ns per layer: of a microbatch, a token, and a pair of tokens; and a factor per stage."""

    fixed: float = 4000.0
    token: float = 20.0
    pair: float = 0.02
    factors: tuple[float, ...] = (1.0, 1.0)

    def layer_ns(self, stage: int, chunk: Chunk) -> float:
        pairs = chunk.tokens * (chunk.prefix + chunk.tokens / 2)
        return self.factors[stage] * (self.fixed + self.token * chunk.tokens + self.pair * pairs)


def played(
    model: Model, partition: Sequence[int], work: Sequence[Chunk], engine: Engine = UNHINDERED
) -> Execution:
    """What a pipeline with this split does with the chunks, in order."""
    steps = [
        Step(
            compute=tuple(round(held * model.layer_ns(stage, chunk)) for stage, held in enumerate(partition)),
            at=chunk.at,
        )
        for chunk in work
    ]
    return play(engine.program(steps))


def makespans_ns(execution: Execution, work: Sequence[Chunk]) -> list[int]:
    """Of each prompt: from its first chunk's begin on the first stage to its last one's end on the last."""
    computing = [each for each in execution.works if each.computes]
    last_stage = max(execution.stages)
    begins = {each.launch.step: each.begin for each in computing if each.rank == 0}
    ends = {each.launch.step: each.end for each in computing if each.rank == last_stage}
    firsts = [number for number, chunk in enumerate(work) if chunk.prefix == 0]
    lasts = [*(number - 1 for number in firsts[1:]), len(work) - 1]
    return [ends[last] - begins[first] for first, last in zip(firsts, lasts, strict=True)]


def recorded(
    execution: Execution,
    partition: Sequence[int],
    work: Sequence[Chunk],
    *,
    device_types: Sequence[str] | None = None,
    **run: Any,
) -> Trace:
    """Its recording by the engine's own spans, with what each microbatch held.

    device_types: names of the devices; all different if None. run: other facts of the run.
    """
    trace = recorded_as_spans(execution)
    step = trace.spans["microbatch"].to_numpy()
    forward = (trace.spans["kind"] == "forward").to_numpy() & (step >= 0)
    spans = trace.spans.assign(
        tokens=np.where(forward, np.array([chunk.tokens for chunk in work])[step], -1),
        prefix=np.where(forward, np.array([chunk.prefix for chunk in work])[step], -1),
    )
    names = device_types or [f"device type {stage}" for stage in range(len(partition))]
    devices = tuple(replace(device, name=name) for device, name in zip(trace.run.devices, names, strict=True))
    facts = replace(trace.run, devices=devices, partition=tuple(partition), **run)
    return replace(trace, run=facts, spans=table(SPANS, {name: spans[name] for name in SPANS.columns}))


def requested(trace: Trace, rows: Sequence[tuple[int, int, bool]]) -> Trace:
    """With requests: arrival and first token in ns, and whether it is a warm-up."""
    columns: dict[str, Sequence[Any]] = {
        "request": [f"request {number}" for number in range(len(rows))],
        "arrival_ns": [arrival + ORIGIN_NS for arrival, _, _ in rows],
        "first_token_ns": [first + ORIGIN_NS for _, first, _ in rows],
        "end_ns": [first + ORIGIN_NS for _, first, _ in rows],
        "prompt_tokens": [-1] * len(rows),
        "output_tokens": [1] * len(rows),
        "warmup": [warmup for _, _, warmup in rows],
    }
    return replace(trace, requests=table(REQUESTS, columns))


def occupied(
    layers_ns: Sequence[Sequence[float]],
    *,
    tokens: Sequence[int] | None = None,
    prefix: Sequence[int] | None = None,
    decode: Sequence[bool] | None = None,
    ends_ns: Sequence[Sequence[int]] | None = None,
) -> Occupancy:
    """Stages that work one after the other, without a gap; sizes are unknown unless given."""
    layers = np.array(layers_ns).round().astype(np.int64)
    ends = np.zeros_like(layers) if ends_ns is None else np.array(ends_ns, dtype=np.int64)
    stages, count = layers.shape
    done = (layers + ends).cumsum(axis=1) + np.arange(stages)[:, np.newaxis]
    return Occupancy(
        origin_ns=0,
        begin_ns=done - layers - ends,
        end_ns=done,
        layers_ns=layers,
        ends_ns=ends,
        tokens=np.array([-1] * count if tokens is None else tokens, dtype=np.int64),
        prefix=np.array([-1] * count if prefix is None else prefix, dtype=np.int64),
        decode=np.array([False] * count if decode is None else decode, dtype=np.bool_),
        whole=np.ones(count, dtype=np.bool_),
    )
