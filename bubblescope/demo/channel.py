"""What travels between stages: microbatches of activations, and sampled tokens back."""

from __future__ import annotations

import os
from dataclasses import astuple, dataclass
from multiprocessing.connection import Connection
from struct import Struct

import numpy as np

from bubblescope.demo.model import Array

_MICROBATCH = Struct("<4q?")
_TOKEN = Struct("<q")
TOKEN_BYTES = _TOKEN.size


@dataclass(frozen=True)
class Microbatch:
    """A chunk of a prompt: `tokens` of request `request`, after `prefix` tokens of it.

    number: the same on all stages. last: with it the prompt is complete.
    """

    number: int
    request: int
    tokens: int
    prefix: int
    last: bool


def send_activations(pipe: Connection, batch: Microbatch, activations: Array) -> None:
    """Send to the next stage; waits until it has taken them."""
    pipe.send_bytes(_MICROBATCH.pack(*astuple(batch)))
    pipe.send_bytes(np.ascontiguousarray(activations).data.cast("B"))


def spin(pipe: Connection) -> None:
    """Wait until something arrives, or the other end has ended, and keep the core busy meanwhile."""
    while not pipe.poll():
        os.sched_yield()


def receive_activations(pipe: Connection, hidden_size: int) -> tuple[Microbatch, Array]:
    """Wait for the previous stage; raises EOFError when it has ended."""
    batch = Microbatch(*_MICROBATCH.unpack(pipe.recv_bytes(_MICROBATCH.size)))
    activations = np.empty((batch.tokens, hidden_size), np.float32)
    pipe.recv_bytes_into(activations.data.cast("B"))
    return batch, activations


def send_token(pipe: Connection, token: int) -> None:
    """Send a sampled token to the first stage."""
    pipe.send_bytes(_TOKEN.pack(token))


def receive_token(pipe: Connection) -> int:
    """Wait for the last stage; raises EOFError when it has ended."""
    return int(_TOKEN.unpack(pipe.recv_bytes(TOKEN_BYTES))[0])
