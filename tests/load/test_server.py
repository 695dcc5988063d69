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
