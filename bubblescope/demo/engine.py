"""Starts the stages, each a process, asks them, and hands on what they answer."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

from bubblescope.demo.cores import cores_of_their_own
from bubblescope.demo.stage import Answer, Place, run


class StageEndedError(Exception):
    """A stage ended before all requests were answered."""


def serve(partition: Sequence[int], requests: Sequence[int]) -> Iterator[Answer]:
    """Run the pipeline, layers per stage, and yield its answers; raises StageEndedError.

    requests: the prompt tokens of each, the first a warm-up. One is made when its answer is wanted.
    However it ends, no stage is left running.
    """
    spawn = multiprocessing.get_context("spawn")
    asking, answering = spawn.Pipe()
    places = _places(tuple(partition), tuple(requests), answering)
    stages = [spawn.Process(target=run, args=(place,), daemon=True) for place in places]
    try:
        for stage in stages:
            stage.start()
        for place in places:
            _close(place)
        # A stage that ends closes its pipes, so the others end too, and the first one's answers.
        yield from _answers(asking, requests)
        for stage in stages:
            stage.join()
        _check(stages)
    finally:
        for stage in stages:
            if stage.is_alive():
                stage.terminate()
                stage.join()


def _places(partition: tuple[int, ...], requests: tuple[int, ...], answering: Connection) -> list[Place]:
    spawn = multiprocessing.get_context("spawn")
    count = len(partition)
    between = [spawn.Pipe(duplex=False) for _ in range(count - 1)]
    token_in, token_out = spawn.Pipe(duplex=False) if count > 1 else (None, None)
    before = [None, *(receiving for receiving, _ in between)]
    after = [*(sending for _, sending in between), None]
    tokens = {0: token_in, count - 1: token_out}
    cores = cores_of_their_own(count)
    return [
        Place(
            number=n,
            partition=partition,
            requests=requests,
            before=before[n],
            after=after[n],
            tokens=tokens.get(n),
            asked=answering if n == 0 else None,
            core=cores[n] if cores else None,
        )
        for n in range(count)
    ]


def _close(place: Place) -> None:
    """Close this process's copies of the pipes, so that they end with the stages."""
    for pipe in (place.before, place.after, place.tokens, place.asked):
        if pipe is not None:
            pipe.close()


def _answers(asking: Connection, requests: Sequence[int]) -> Iterator[Answer]:
    for request in range(len(requests)):
        try:
            asking.send(request)
            yield asking.recv()
        except (EOFError, ConnectionError):
            return


def _check(stages: Sequence[SpawnProcess]) -> None:
    codes = {number: stage.exitcode or 0 for number, stage in enumerate(stages)}
    number = min(codes, key=lambda number: codes[number])  # who was killed, not who ended with it
    if codes[number] < 0:
        raise StageEndedError(f"stage {number} was killed by {signal.Signals(-codes[number]).name}")
    if any(codes.values()):
        raise StageEndedError(f"stage {max(codes, key=lambda number: codes[number])} failed")
