"""What recording a server costs: its times to first token recorded in several ways and not at all, in turn.

    python benchmarks/bench_server.py [--arms plain,stages] [--starts 3] [--requests 10] [--beside] \\
        [--prompt-tokens 32000] -- vllm serve MODEL --pipeline-parallel-size 2 --port 8000 ...

Each start of the server is one observation, the mean of its requests: requests of one start are
more alike than starts are. With `--beside` the servers of one start of each arm run at the same time, on
ports of their own, and are asked in turns, so that what the machine does in a second counts for all;
there has to be memory for so many. The arms:

    plain     not recorded
    stages    under `bubblescope record`
    layers    with --detail layers
    kernels   with --kernels
    profiler  not recorded, while the engine's own profiler runs (/start_profile); the command or the
              environment has to allow that

Without a command nothing is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

import httpx

from bubblescope.load.interfaces import Interface
from bubblescope.load.plan import Load, Prompt, prompts, url_of
from bubblescope.load.server import Server

#: Options of `bubblescope record`; None: the arm is not recorded.
ARMS: Mapping[str, tuple[str, ...] | None] = {
    "plain": None,
    "stages": (),
    "layers": ("--detail", "layers"),
    "kernels": ("--kernels",),
    "profiler": None,
}
#: Student's t for 95 %, two sided, by degrees of freedom.
T95 = {2: 4.303, 4: 2.776, 6: 2.447, 8: 2.306, 10: 2.228, 14: 2.145, 18: 2.101}
#: A server that does not end at Ctrl-C so soon is ended more firmly.
_PATIENCE_SECONDS = 20.0


@dataclass
class Started:
    """One start of the server. ttft_ms: of its requests so far. trace: where it is recorded, if it is."""

    arm: str
    process: subprocess.Popen[bytes]
    load: Load
    trace: Path
    ttft_ms: list[float] = field(default_factory=list)

    def stopped(self) -> str:
        """End it; returns how long that took, and how large the trace is."""
        began = time.monotonic()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            self.process.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(_PATIENCE_SECONDS)
                break
        took = f"ended in {time.monotonic() - began:.1f} s"
        return f"{took}, trace {self.trace.stat().st_size / 1e3:.0f} kB" if self.trace.exists() else took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--arms", default="plain,stages", help=f"of {', '.join(ARMS)}")
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--requests", type=int, default=10)
    parser.add_argument("--prompt-tokens", type=int, default=32_000)
    parser.add_argument("--output-tokens", type=int, default=1)
    parser.add_argument("--beside", action="store_true")
    parser.add_argument("command", nargs="*")
    wanted = parser.parse_args()
    if not wanted.command:
        print("no command given; see the head of this file")
        return
    if min(wanted.starts, wanted.requests) < 1:
        parser.error("--starts and --requests are at least 1")
    if shutil.which(wanted.command[0]) is None:
        parser.error(f"there is no program {wanted.command[0]}")
    arms = wanted.arms.split(",")
    if not set(arms) <= set(ARMS):
        parser.error(f"--arms is of {', '.join(ARMS)}")
    if wanted.beside and "--port" not in wanted.command:
        parser.error("--beside gives each server a port of its own, so the command needs `--port N`")
    load = Load(
        url_of(wanted.command, None), wanted.prompt_tokens, wanted.requests,
        output_tokens=wanted.output_tokens,
    )  # fmt: skip
    means: dict[str, list[float]] = {arm: [] for arm in arms}
    for start in range(wanted.starts):
        order = arms[::-1] if start % 2 else arms
        for together in [order] if wanted.beside else [[arm] for arm in order]:
            for arm, ttft_ms, ended in measured(together, wanted.command, load):
                means[arm].append(statistics.fmean(ttft_ms))
                listed = ", ".join(f"{ms:.1f}" for ms in ttft_ms)
                print(f"start {start + 1} {arm}: {listed} ms; {ended}", flush=True)
    for arm in arms[1:]:
        print(summary(arms[0], means[arms[0]], arm, means[arm]))


def measured(arms: Sequence[str], command: Sequence[str], load: Load) -> list[tuple[str, list[float], str]]:
    """Start a server of each arm, ask them in turns and end them.

    Returns of each the arm, its times to first token in ms, and how it ended.
    """
    with tempfile.TemporaryDirectory() as folder, _log() as log:
        servers = [_started(arm, n, command, load, Path(folder), log) for n, arm in enumerate(arms)]
        try:
            asyncio.run(_ask_in_turns(servers))
        finally:
            ended = [server.stopped() for server in servers]
        return [(server.arm, server.ttft_ms, end) for server, end in zip(servers, ended, strict=True)]


def summary(base_arm: str, base: Sequence[float], arm: str, other: Sequence[float]) -> str:
    """The difference of two arms' means and its 95 % interval, as a share of the first one's."""
    starts, mean = len(base), statistics.fmean(base)
    difference = statistics.fmean(other) - mean
    text = (
        f"{arm}: {mean + difference:.2f} ms, {base_arm}: {mean:.2f} ms, difference {difference / mean:+.2%}"
    )
    if 2 * starts - 2 not in T95:
        return f"{text}, of {starts} starts per arm: no interval"
    spread = (statistics.variance(base) + statistics.variance(other)) / starts
    half = T95[2 * starts - 2] * spread**0.5
    return (
        f"{text}, 95 % interval {(difference - half) / mean:+.2%} to {(difference + half) / mean:+.2%}, "
        f"{starts} starts per arm"
    )


def on_port(command: Sequence[str], port: int) -> list[str]:
    """The command with another port in the place of its own, which stands after `--port`."""
    at = list(command).index("--port") + 1
    return [*command[:at], str(port), *command[at + 1 :]]


@contextlib.contextmanager
def _log() -> Iterator[BinaryIO]:
    """Where the servers' output goes: BENCH_SERVER_LOG, or nowhere."""
    with open(os.environ.get("BENCH_SERVER_LOG", os.devnull), "ab") as log:
        yield log


def _started(
    arm: str, number: int, command: Sequence[str], load: Load, folder: Path, log: BinaryIO
) -> Started:
    url = httpx.URL(load.url)
    assert url.port is not None
    if number:
        # Engines take the ports beside their own, too.
        url = url.copy_with(port=url.port + 100 * number)
        command = on_port(command, url.port or 0)
    trace = folder / f"{number}.json.gz"
    options = ARMS[arm]
    if options is not None:
        command = [
            sys.executable, "-m", "bubblescope", "record", "-o", str(trace), *options, "--", *command,
        ]  # fmt: skip
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    return Started(arm, process, replace(load, url=str(url)), trace)


async def _ask_in_turns(servers: Sequence[Started]) -> None:
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(Server(server.load.url)) for server in servers]
        models = await asyncio.gather(*(_ready(*each) for each in zip(servers, clients, strict=True)))
        interfaces = [await client.interface() for client in clients]
        asked = list(zip(servers, clients, models, interfaces, strict=True))
        warmup, requests = prompts(servers[0].load)
        for prompt in warmup:
            for each in asked:
                await _ttft_ms(*each, prompt)
        for server in servers:
            _profile(server, "start")
        for number, prompt in enumerate(requests):
            for each in asked[::-1] if number % 2 else asked:
                each[0].ttft_ms.append(await _ttft_ms(*each, prompt))
        for server in servers:
            _profile(server, "stop")


async def _ready(server: Started, client: Server) -> str:
    while (model := await client.model()) is None:
        if server.process.poll() is not None:
            raise SystemExit(f"{server.arm}: the server ended with status {server.process.returncode}")
        await asyncio.sleep(0.25)
    return model


async def _ttft_ms(
    server: Started, client: Server, model: str, interface: Interface, prompt: Prompt
) -> float:
    answer = await client.complete(model, prompt, server.load.output_tokens, interface)
    return answer.ttft_ns / 1e6


def _profile(server: Started, what: str) -> None:
    if server.arm == "profiler":
        began = time.monotonic()
        httpx.post(f"{server.load.url}/{what}_profile", json={}, timeout=600).raise_for_status()
        print(f"/{what}_profile took {time.monotonic() - began:.1f} s", flush=True)


if __name__ == "__main__":
    main()
