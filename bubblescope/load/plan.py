"""What is to be asked of a server, and where it will be found."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from bubblescope.errors import UsageError

#: Where the servers listen unless told otherwise.
_PORTS = {"vllm": 8000, "sglang": 30000, "llama.cpp": 8080}
_ANY_ADDRESS = ("0.0.0.0", "::", "[::]")

#: Token ids that no vocabulary lacks and that are special in none.
_TOKEN_IDS = range(100, 500)

#: How the requests of a load are named; collectors know a warm-up by its name.
_NAME = "bubblescope-{}-{}"


@dataclass(frozen=True)
class Load:
    """Requests to send, all alike but for their tokens.

    url: of the server, without a path; "" where the command that starts it tells.
    prompt_tokens, output_tokens: of each request.
    requests, warmup: how many are measured, and sent before those.
    concurrency: how many are open at once.
    ready_seconds: how long the server may take until it answers.
    """

    url: str
    prompt_tokens: int
    requests: int = 3
    concurrency: int = 1
    output_tokens: int = 1
    warmup: int = 1
    ready_seconds: int = 900


@dataclass(frozen=True)
class Prompt:
    """A request's name and tokens. No two begin alike, so that no prefix cache holds one."""

    name: str
    tokens: tuple[int, ...]


def prompts(load: Load) -> tuple[list[Prompt], list[Prompt]]:
    """The warm-up's prompts and the measured ones."""
    warmup = [_prompt("warmup", number, load.prompt_tokens) for number in range(load.warmup)]
    return warmup, [_prompt("request", number, load.prompt_tokens) for number in range(load.requests)]


def _prompt(kind: str, number: int, length: int) -> Prompt:
    name = _NAME.format(kind, number + 1)
    return Prompt(name, tuple(random.Random(name).choices(_TOKEN_IDS, k=length)))


def url_of(command: Sequence[str], engine: str | None) -> str:
    """Where the server of a command listens, by its options `--host` and `--port`."""
    port = _option(command, "--port") or str(_PORTS.get(engine or "", ""))
    if not port.isdecimal():
        raise UsageError("where the server listens is not in its command; say it with --url http://HOST:PORT")
    host = _option(command, "--host") or "127.0.0.1"
    if host in _ANY_ADDRESS:
        host = "127.0.0.1"
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _option(command: Sequence[str], name: str) -> str | None:
    for word, following in zip(command, [*command[1:], ""], strict=True):
        if word == name:
            return following
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
    return None
