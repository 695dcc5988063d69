"""Carrying out a load: wait for the server, warm it up, send, time, tell."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from bubblescope.load.interfaces import Interface
from bubblescope.load.plan import Load, Prompt, prompts
from bubblescope.load.server import Answer, LoadError, Server

#: Says something to the person at the terminal.
Say = Callable[[str], None]
#: Takes an answer, and whether it was only a warm-up.
Answered = Callable[[Answer, bool], None]

_ASK_SECONDS = 0.25
_LOOK_SECONDS = 0.05
_TELL_SECONDS = 15


@dataclass(frozen=True)
class Measured:
    """What came of a load: the answers in order of their sending."""

    answers: tuple[Answer, ...]

    @property
    def window_ns(self) -> tuple[int, int]:
        """From the first measured request's sending to the last one's end."""
        return min(a.sent_ns for a in self.answers), max(a.end_ns for a in self.answers)


class Stopped(Exception):  # noqa: N818 - no error: somebody else ended it
    """The server has ended, or the user has had enough."""


def drive(load: Load, say: Say, answered: Answered, stop: threading.Event) -> Measured:
    """Carry out a load; raises LoadError, and Stopped soon after `stop` is set.

    `answered` is told of each answer as soon as it is complete.
    """
    return asyncio.run(_until_stopped(_Driving(load, say, answered).run(), stop))


async def _until_stopped(work: Coroutine[Any, Any, Measured], stop: threading.Event) -> Measured:
    """Do work, but give it up, and the requests that are open, soon after `stop` is set."""
    task = asyncio.create_task(work)
    while not task.done():
        if stop.is_set():
            task.cancel()
        await asyncio.wait({task}, timeout=_LOOK_SECONDS)
    if task.cancelled():
        raise Stopped
    return task.result()


@dataclass(frozen=True)
class _Driving:
    load: Load
    say: Say
    answered: Answered

    async def run(self) -> Measured:
        warmup, measured = prompts(self.load)
        async with Server(self.load.url) as server:
            model = await _wait_until_ready(server, self.load.ready_seconds, self.say)
            interface = await server.interface()
            for prompt in warmup:
                await self._send(server, model, interface, prompt, is_warmup=True)
            places = asyncio.Semaphore(self.load.concurrency)

            async def send(prompt: Prompt) -> Answer:
                async with places:
                    return await self._send(server, model, interface, prompt, is_warmup=False)

            answers = await asyncio.gather(*map(send, measured))
        _warn(answers, self.load, self.say)
        return Measured(tuple(sorted(answers, key=lambda answer: answer.sent_ns)))

    async def _send(
        self, server: Server, model: str, interface: Interface, prompt: Prompt, is_warmup: bool
    ) -> Answer:
        answer = await server.complete(model, prompt, self.load.output_tokens, interface)
        self.answered(answer, is_warmup)
        self.say(_told(answer, self.load))
        return answer


async def _wait_until_ready(server: Server, seconds: int, say: Say) -> str:
    begin = time.monotonic()
    told = begin
    say(f"waiting until {server.url} answers")
    while (model := await server.model()) is None:
        now = time.monotonic()
        if now - begin > seconds:
            last = f" (it answered {server.status})" if server.status else ""
            raise LoadError(
                f"{server.url} was not ready within {seconds} s{last}; --ready-seconds gives it longer"
            )
        if now - told > _TELL_SECONDS:
            told = now
            say(f"still waiting until {server.url} answers, for {now - begin:.0f} s now")
        await asyncio.sleep(_ASK_SECONDS)
    return model


def _told(answer: Answer, load: Load) -> str:
    seconds = answer.ttft_ns / 1e9
    name = answer.name.partition("-")[2].replace("-", " ")
    return (
        f"{name}: {load.prompt_tokens} tokens, first token after {seconds * 1e3:.1f} ms, "
        f"{load.prompt_tokens / seconds:.0f} tokens/s"
    )


def _warn(answers: Sequence[Answer], load: Load, say: Say) -> None:
    cached = sum(answer.cached_tokens or 0 for answer in answers)
    if cached:
        say(f"{cached} prompt tokens came from the server's prefix cache, so the times are too short")
    counted = {answer.prompt_tokens for answer in answers} - {None, load.prompt_tokens}
    if counted:
        say(f"the server counts {', '.join(map(str, counted))} tokens in a prompt of {load.prompt_tokens}")
