"""Programs as serving engines run them: chunked prefill and decode over stages and ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.pipelines.program import Program, Rank, Ticket

#: What a chunk of a prompt, a decode step and a sampled token weigh on a link.
ACTIVATION_BYTES = 8_000_000
DECODE_BYTES = 8_192
TOKEN_BYTES = 8


@dataclass(frozen=True)
class Step:
    """One microbatch: what it costs on each stage.

    at: when its request arrives; no host goes on before.
    samples: the last stage gives the sampled tokens back after it.
    size: bytes of each of its tensors.
    A decode step needs the tokens of the last step that sampled.
    """

    compute: tuple[int, ...]
    phase: str = "prefill"
    at: int = 0
    samples: bool = False
    size: int = ACTIVATION_BYTES


@dataclass(frozen=True)
class Engine:
    """How an engine runs its steps; times in ns.

    link: how long one tensor of activations travels, or that for each hop from stage to stage; `tensors`
        of them make a microbatch.
    early: receives are posted on a stream of their own as soon as the host comes by; else behind the
        computing that was launched before.
    host: per stage, what its host is busy with before each step.
    lockstep: a host waits for the step's computing (and tokens) before it goes on.
    skew: per rank of a stage, how much longer it computes than the step says; `turns`: from step to
        step the next rank's. More than one: the ranks of a stage all-reduce for `allreduce`.
    tokens: how they come back: "broadcast" to every stage, or "return" to the first.
    copy: length of a copy before each computing; 0 for none.
    holds: a stage does not compute on before its sends have ended.
    """

    link: int | tuple[int, ...] = 2
    tensors: int = 1
    early: bool = False
    host: tuple[int, ...] = ()
    lockstep: bool = False
    skew: tuple[int, ...] = (0,)
    turns: bool = False
    allreduce: int = 2
    tokens: str = "broadcast"
    token_link: int = 2
    copy: int = 0
    buffers: int = 0
    lag: int = 0
    stagger: int = 0
    holds: bool = False

    def program(self, steps: Sequence[Step]) -> Program:
        stages, width = len(steps[0].compute), len(self.skew)
        ranks = [Rank(number, number // width) for number in range(stages * width)]
        for rank in ranks:
            self._run(rank, steps, stages)
        groups = {"pp": tuple(range(len(ranks)))}
        for lane in range(width):
            groups[f"tokens{lane}"] = tuple(range(lane, len(ranks), width))
        for stage in range(stages):
            groups[f"tp{stage}"] = tuple(range(stage * width, (stage + 1) * width))
        return Program(tuple(ranks), groups, self.buffers, self.lag, self.stagger)

    def _run(self, rank: Rank, steps: Sequence[Step], stages: int) -> None:
        computed: list[Ticket] = []
        sent: list[Ticket] = []
        token: list[Ticket] = []
        for number, step in enumerate(steps):
            rank.until(step.at)
            if self.host:
                rank.spend(self.host[rank.stage])
            received = self._receive(rank, step.size, [] if self.early else computed)
            needed = token if step.phase == "decode" and rank.stage == 0 else []
            held = sent if self.holds else []
            if self.copy:
                rank.copy(self.copy)
            turn = rank.number + number if self.turns else rank.number
            ns = step.compute[rank.stage] + self.skew[turn % len(self.skew)]
            after = [*received, *computed, *needed, *held]
            computed = [rank.compute(ns, after, step=number, phase=step.phase)]
            if len(self.skew) > 1:
                computed = [
                    rank.collective("allreduce", f"tp{rank.stage}", self.allreduce, step.size, computed)
                ]
            if rank.stage < stages - 1:
                to = rank.number + len(self.skew)
                ns = self._hop(rank.stage)
                sent = [rank.send(to, step.size, ns, computed) for _ in range(self.tensors)]
            if step.samples:
                token = self._give_back(rank, stages, computed) or token
            if self.lockstep:
                for ticket in (*computed, *(token if step.samples else [])):
                    rank.wait(ticket)

    def _receive(self, rank: Rank, size: int, after: list[Ticket]) -> list[Ticket]:
        if rank.stage == 0:
            return []
        sender = rank.number - len(self.skew)
        ns = self._hop(rank.stage - 1)
        return [rank.receive(sender, size, ns, after) for _ in range(self.tensors)]

    def _hop(self, stage: int) -> int:
        return self.link if isinstance(self.link, int) else self.link[stage]

    def _give_back(self, rank: Rank, stages: int, computed: list[Ticket]) -> list[Ticket]:
        lane = rank.number % len(self.skew)
        last = (stages - 1) * len(self.skew) + lane
        if self.tokens == "broadcast":
            return [rank.collective("broadcast", f"tokens{lane}", self.token_link, TOKEN_BYTES, computed)]
        if rank.number == last:
            rank.send(lane, TOKEN_BYTES, self.token_link, computed, bulky=False)
        if rank.stage == 0:
            return [rank.receive(last, TOKEN_BYTES, self.token_link, computed, bulky=False)]
        return []


def prefill(*compute: Sequence[int]) -> list[Step]:
    """The steps of one prompt, from what each stage computes: one sequence of chunks per stage."""
    return [Step(chunk) for chunk in zip(*compute, strict=True)]


def decode(*compute: int, at: int = 0) -> Step:
    """A decode step, from what each stage computes."""
    return Step(compute, "decode", at, samples=True, size=DECODE_BYTES)
