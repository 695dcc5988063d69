"""What a load says of a server that does not answer as one should."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading

import pytest

from bubblescope.load.drive import drive
from bubblescope.load.interfaces import OPENAI
from bubblescope.load.plan import Load, Prompt
from bubblescope.load.server import Answer, LoadError, Server


def test_a_server_that_drops_connections_once_they_have_had_an_answer_gets_all_requests() -> None:
    answer = b'data: {"choices": [{"text": "x"}]}\n\ndata: [DONE]\n\n'
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {len(answer)}\r\n\r\n"
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve(connection: socket.socket) -> None:
            with connection:
                while not connection.recv(1 << 16).endswith(b"}"):  # its body comes last
                    pass
                connection.sendall(head.encode() + answer)
                connection.recv(1)  # a second request on it, or its end: either way it is dropped

        def accept() -> None:
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

        async def asked() -> list[str]:
            async with Server(f"http://127.0.0.1:{listener.getsockname()[1]}") as server:
                prompts = [Prompt(f"bubblescope-request-{number}", (100,)) for number in (1, 2)]
                return [(await server.complete("m", prompt, 1, OPENAI)).name for prompt in prompts]

        threading.Thread(target=accept, daemon=True).start()
        assert asyncio.run(asked()) == ["bubblescope-request-1", "bubblescope-request-2"]


class Answering:
    """A server that answers everything alike, and drops the connection."""

    def __init__(self, status: str, body: bytes) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._answer = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def _serve(self) -> None:
        while True:
            with self._listener.accept()[0] as connection:
                connection.recv(1 << 16)
                connection.sendall(self._answer)


def test_a_server_that_wants_a_key_never_becomes_ready() -> None:
    async def model() -> str | None:
        async with Server(Answering("401 Unauthorized", b"{}").url) as server:
            return await server.model()

    with pytest.raises(LoadError, match="answers 401 to /v1/models: it wants a key, which the load does not"):
        asyncio.run(model())


def test_what_else_it_answered_is_told_when_patience_is_at_its_end() -> None:
    url = Answering("404 Not Found", b"{}").url
    with pytest.raises(LoadError, match=r"was not ready within 1 s \(it answered 404\); --ready-seconds"):
        drive(Load(url, 10, 1, ready_seconds=1), lambda _: None, lambda *_: None, threading.Event())


@pytest.mark.parametrize("usage", ["[1]", '"many"', '{"prompt_tokens": "10", "completion_tokens": 1e30}'])
def test_counts_that_are_none_are_not_told(usage: str) -> None:
    stream = f'data: {{"choices": [{{"text": "x"}}], "usage": {usage}}}\n\ndata: [DONE]\n\n'

    async def answer() -> Answer:
        async with Server(Answering("200 OK", stream.encode()).url) as server:
            return await server.complete("m", Prompt("bubblescope-request-1", (100,)), 1, OPENAI)

    told = asyncio.run(answer())
    assert (told.prompt_tokens, told.output_tokens, told.cached_tokens) == (None, None, None)


def test_a_connection_that_is_reset_is_named_even_without_words() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def reset() -> None:
            connection, _ = listener.accept()
            connection.recv(1 << 16)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()

        async def asked() -> None:
            async with Server(f"http://127.0.0.1:{listener.getsockname()[1]}") as server:
                await server.complete("m", Prompt("bubblescope-request-1", (100,)), 1, OPENAI)

        threading.Thread(target=reset, daemon=True).start()
        with pytest.raises(LoadError, match="broke off bubblescope-request-1: ReadError"):
            asyncio.run(asked())
