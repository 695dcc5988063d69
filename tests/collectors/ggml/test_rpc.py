"""Devices that are reached over a network: two rpc-servers and their client, recorded together and apart."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bubblescope.native.build import build
from bubblescope.native.libraries import LIBRARIES
from bubblescope.record.assemble import traces_of
from bubblescope.record.spool import read_spool
from bubblescope.trace.model import Trace
from tests.collectors.ggml.running import Programs, compiled, environment
from tests.engines.llamacpp.running import LLAMACPP, installed
from tests.record.commands import wait_until

pytestmark = installed


@dataclass(frozen=True)
class Servers:
    """Running servers and their addresses."""

    processes: tuple[subprocess.Popen[bytes], ...]
    addresses: tuple[str, ...]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    return compiled(tmp_path_factory.mktemp("programs"))


@contextlib.contextmanager
def servers(spool: Path | None) -> Iterator[Servers]:
    """Two servers on free ports, recorded where `spool` is given."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(2)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        ports = [one.getsockname()[1] for one in sockets]
    recording = {"LD_PRELOAD": str(build(LIBRARIES["ggml"])), "BUBBLESCOPE_SPOOL": str(spool)}
    variables = {**os.environ, **(recording if spool is not None else {})}
    command = [str(LLAMACPP / "bin" / "ggml-rpc-server"), "--host", "127.0.0.1", "--port"]
    running = [
        subprocess.Popen(
            [*command, str(port)], env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for port in ports
    ]
    try:
        for port in ports:
            wait_until(lambda port=port: _answers(port))
        yield Servers(tuple(running), tuple(f"127.0.0.1:{port}" for port in ports))
    finally:
        for process in running:
            process.kill()
            process.wait()


def _answers(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def client(programs: Programs, spool: Path, of: Servers, tokens: int) -> subprocess.Popen[str]:
    variables = {
        "LD_PRELOAD": build(LIBRARIES["ggml"]), "BUBBLESCOPE_SPOOL": spool,
        "RPC_SERVERS": ",".join(of.addresses),
    }  # fmt: skip
    return subprocess.Popen(
        [str(programs.decode), str(programs.model), "RPC0,RPC1", str(tokens), "256"],
        env=environment(programs, **variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def decoded(programs: Programs, spool: Path, of: Servers) -> Trace:
    process = client(programs, spool, of, tokens=1024)
    assert process.communicate(timeout=120)[0] == "0\n"
    (trace,) = traces_of(str(spool))
    return trace


def test_a_server_that_is_recorded_tells_when_it_computed(programs: Programs, tmp_path: Path) -> None:
    with servers(tmp_path) as both:
        trace = decoded(programs, tmp_path, both)
        processes, _ = read_spool(str(tmp_path))
    assert [(device.stage, device.name) for device in trace.run.devices] == [(0, "RPC0"), (1, "RPC1")]
    layers = sum(trace.run.partition or ())
    assert layers == 8
    forward = trace.spans[trace.spans["kind"] == "forward"]
    assert sorted(forward[["stage", "microbatch"]].itertuples(index=False, name=None)) == [
        (stage, microbatch) for stage in (0, 1) for microbatch in range(5)
    ]
    # The times are those that the servers wrote.
    by_server = [process for process in processes if not process.facts]
    times = {
        (row["begin_ns"], row["end_ns"])
        for process in by_server
        for row in process.spans[["begin_ns", "end_ns"]]
    }
    assert len(by_server) == 2
    assert set(forward[["begin_ns", "end_ns"]].itertuples(index=False, name=None)) == times
    # The second device has its input from the first.
    first, second = (forward[forward["stage"] == stage].sort_values("microbatch") for stage in (0, 1))
    assert (second["begin_ns"].to_numpy() >= first["end_ns"].to_numpy()).all()
    assert all(lost.what != "devices reached over a network" for lost in trace.run.lost)


def test_a_server_that_is_not_recorded_is_seen_from_its_client(programs: Programs, tmp_path: Path) -> None:
    with servers(None) as both:
        trace = decoded(programs, tmp_path, both)
    forward = trace.spans[trace.spans["kind"] == "forward"]
    assert len(forward) == 10
    assert set(forward["clock"]) == {"host"}
    assert trace.run.facts["llama_device_times"] == {"RPC0": "client", "RPC1": "client"}
    assert [(lost.what, lost.count) for lost in trace.run.lost] == [("devices reached over a network", 2)]


def test_a_server_killed_in_the_middle_leaves_a_trace(programs: Programs, tmp_path: Path) -> None:
    with servers(tmp_path) as both:
        process = client(programs, tmp_path, both, tokens=16384)

        def works() -> bool:
            assert process.poll() is None
            processes, _ = read_spool(str(tmp_path)) if any(tmp_path.iterdir()) else ([], [])
            return sum(len(one.spans) for one in processes if not one.facts) >= 4

        wait_until(works)
        both.processes[1].send_signal(signal.SIGKILL)
        process.communicate(timeout=120)
        assert process.returncode != 0
    (trace,) = traces_of(str(tmp_path))
    assert {0, 1} <= set(trace.spans.loc[trace.spans["kind"] == "forward", "stage"])
