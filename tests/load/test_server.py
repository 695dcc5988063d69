"""What a load says of a server that does not answer as one should."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading

import pytest

from bubblescope.load.interfaces import OPENAI
from bubblescope.load.plan import Prompt
from bubblescope.load.server import LoadError, Server


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
