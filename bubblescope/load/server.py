"""A server of a language model, as its client sees it. Nothing but the given address is talked to.

Asynchronous, so that a request can be given up while it waits: a server that is being ended may
wait for its clients in turn.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec

from bubblescope.errors import NOT_A_TRACE, BubblescopeError
from bubblescope.load.interfaces import OPENAI, SGLANG, Interface
from bubblescope.load.plan import Prompt

_PREFILL_SECONDS, _CONNECT_SECONDS, _INFORM_SECONDS = 3600.0, 60.0, 30.0
#: Of an error's text, so much is shown.
_SHOWN = 300
_MODELS = "/v1/models"
_MOST_TOKENS = 1 << 31
_EVENT = b"data:"
_LAST = b"[DONE]"
#: A line of an answer longer than this is no token.
_LONGEST_LINE = 1 << 20


class LoadError(BubblescopeError):
    """The server could not be driven."""

    def __init__(self, message: str) -> None:
        super().__init__(message, NOT_A_TRACE)


@dataclass(frozen=True)
class Answer:
    """One answered request; times are CLOCK_MONOTONIC nanoseconds.

    prompt_tokens, output_tokens, cached_tokens: as the server counted them; None where it does not
        tell.
    """

    name: str
    sent_ns: int
    first_token_ns: int
    end_ns: int
    prompt_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None

    @property
    def ttft_ns(self) -> int:
        """From sending to the first token."""
        return self.first_token_ns - self.sent_ns


class Server:
    """A server at an address; used as an asynchronous context manager, by several tasks at once.

    status: that of its last answer to who asked for its model; 0 if there was none.
    """

    def __init__(self, url: str) -> None:
        self.status = 0
        self.url = url.rstrip("/")
        if not _is_address(self.url):
            raise LoadError(f"{url!r} is no address of a server; http://127.0.0.1:8000 is one")
        # No proxies, no credentials of the environment: only this address.
        timeout = httpx.Timeout(_PREFILL_SECONDS, connect=_CONNECT_SECONDS)
        # Each request has a connection of its own: any server may close one that has had its answer,
        # without a word, while the next request is on its way.
        limits = httpx.Limits(max_keepalive_connections=0)
        self._client = httpx.AsyncClient(base_url=self.url, trust_env=False, timeout=timeout, limits=limits)

    async def __aenter__(self) -> Server:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def answers(self) -> bool:
        """Whether anything answers at the address."""
        try:
            await self._client.get(_MODELS, timeout=2.0)
        except httpx.HTTPError:
            return False
        return True

    async def model(self) -> str | None:
        """The model it serves; None while it is not ready. Raises LoadError where it never will be."""
        try:
            response = await self._client.get(_MODELS, timeout=2.0)
            self.status = response.status_code
            found = msgspec.json.decode(response.content)["data"][0]["id"]
        except (httpx.HTTPError, msgspec.DecodeError, LookupError, TypeError):
            found = None
        if self.status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            raise LoadError(
                f"{self.url} answers {self.status} to {_MODELS}: it wants a key, which the load does not "
                "have; start it without one"
            )
        return str(found) if found is not None and self.status == httpx.codes.OK else None

    async def interface(self) -> Interface:
        """How to ask it, once it is ready: SGLang tells whether it runs without a tokenizer."""
        try:
            response = await self._client.get("/get_server_info", timeout=_INFORM_SECONDS)
            settings = msgspec.json.decode(response.content)
        except (httpx.HTTPError, msgspec.DecodeError):
            return OPENAI
        return (
            SGLANG if isinstance(settings, dict) and settings.get("skip_tokenizer_init") is True else OPENAI
        )

    async def complete(self, model: str, prompt: Prompt, output_tokens: int, interface: Interface) -> Answer:
        """Send a prompt and read its answer to the end; raises LoadError."""
        headers = {"Content-Type": "application/json", "X-Request-Id": prompt.name}
        body = msgspec.json.encode(interface.request(model, prompt, output_tokens))
        sent_ns = time.monotonic_ns()
        first_ns: int | None = None
        usage: Mapping[str, Any] = {}
        try:
            asked = self._client.stream("POST", interface.path, content=body, headers=headers)
            async with asked as response:
                if response.status_code != httpx.codes.OK:
                    raise LoadError(f"{self.url} refused {prompt.name}: {await _text(response)}")
                async for event in _events(response):
                    if interface.has_token(event):
                        first_ns = first_ns or time.monotonic_ns()
                    told = interface.usage(event)
                    usage = told if told and isinstance(told, Mapping) else usage
        except httpx.HTTPError as error:
            raise LoadError(
                f"{self.url} broke off {prompt.name}: {str(error) or type(error).__name__}"
            ) from None
        end_ns = time.monotonic_ns()
        if first_ns is None:
            raise LoadError(f"{self.url} answered {prompt.name} without a token")
        return Answer(
            name=prompt.name,
            sent_ns=sent_ns,
            first_token_ns=first_ns,
            end_ns=end_ns,
            prompt_tokens=_count(usage, "prompt_tokens"),
            output_tokens=_count(usage, "completion_tokens"),
            cached_tokens=_count(usage.get("prompt_tokens_details"), "cached_tokens"),
        )


def _count(counts: object, name: str) -> int | None:
    """A number of tokens that a server told; None where it is none."""
    number = counts.get(name) if isinstance(counts, Mapping) else None
    return number if isinstance(number, int) and 0 <= number < _MOST_TOKENS else None


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


async def _events(response: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    """The JSON objects of a stream of server-sent events."""
    rest = b""
    async for piece in response.aiter_bytes():
        *lines, rest = (rest + piece).split(b"\n")
        if len(rest) > _LONGEST_LINE:
            raise LoadError("the server's answer is no stream of tokens")
        for line in lines:
            data = line.strip().removeprefix(_EVENT).strip()
            if line.startswith(_EVENT) and data != _LAST:
                try:
                    event = msgspec.json.decode(data)
                except msgspec.DecodeError:
                    continue
                if isinstance(event, dict):
                    yield event


async def _text(response: httpx.Response) -> str:
    """What the server says is wrong, in one line."""
    body = (await response.aread())[: 1 << 16]
    try:
        error = msgspec.json.decode(body)
        error = error.get("error", error)
        text = str(error.get("message", error))
    except (msgspec.DecodeError, AttributeError):
        text = body.decode("utf-8", "replace")
    return f"{response.status_code} {' '.join(text.split())[:_SHOWN]}"
