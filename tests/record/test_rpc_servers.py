"""What rpc-servers computed stands among the spans of their client, in the server's times."""

from __future__ import annotations

from typing import Any

import orjson

from bubblescope.record.rpc_servers import join_servers
from bubblescope.record.spool import Process
from tests.record.processes import declared, process, span

ADDRESSES = {"RPC0": "127.0.0.1:50101", "RPC1": "10.0.0.7:50102"}


def client(*spans: dict[str, int]) -> Process:
    facts = {"llama_device_descriptions": (0, orjson.dumps(ADDRESSES).decode())}
    stages = [declared(0, 0, (0, 5), "RPC0", 0), declared(1, 1, (5, 8), "RPC1", 1)]
    return process(stages, spans, facts=facts)


def server(address: str, *spans: dict[str, int]) -> Process:
    return process([declared(-1, device=f"rpc-server[{address}]", ordinal=0)], spans)


def rows(of: Process) -> list[tuple[Any, ...]]:
    fields = ["kind", "stage", "microbatch", "begin_ns", "end_ns"]
    return sorted(tuple(row) for row in of.spans[fields].tolist())


FORWARD, SEND, RECV = 0, 5, 4


def test_a_forward_takes_the_times_of_the_server_that_computed_it() -> None:
    # GIVEN a client that sends a forward at 10 and 110 and has the result at 90 and 190
    asked = [span("forward", 10, 90, microbatch=0), span("forward", 110, 190, microbatch=1)]
    sent = span("send", 12, 95, microbatch=0, peer=1)
    # AND the server, which computes from 20 to 60 and from 115 to 180
    done = server(
        "0.0.0.0:50101", span("forward", 20, 60, microbatch=-1), span("forward", 115, 180, microbatch=-1)
    )
    (joined, rest), lost = join_servers([client(*asked, sent), done])
    # THEN these are its times, and the result is not on its way before it is there
    assert rows(joined) == [(FORWARD, 0, 0, 20, 60), (FORWARD, 0, 1, 115, 180), (SEND, 0, 0, 60, 95)]
    assert (rest.stages, len(rest.spans)) == ({}, 0)
    assert [(entry.what, entry.count) for entry in lost] == [("devices reached over a network", 1)]


def test_a_device_asks_for_its_input_when_its_server_is_done() -> None:
    received = span("recv", 100, 210, stage=1, microbatch=1, peer=0)
    asked = [
        span("forward", 50, 220, stage=1, microbatch=0),
        span("forward", 230, 300, stage=1, microbatch=1),
    ]
    done = server("10.0.0.7:50102", span("forward", 60, 160), span("forward", 240, 290))
    (joined, _), _ = join_servers([client(received, *asked), done])
    assert rows(joined) == [(FORWARD, 1, 0, 60, 160), (FORWARD, 1, 1, 240, 290), (RECV, 1, 1, 160, 210)]


def test_another_address_is_another_server() -> None:
    asked = span("forward", 10, 90, microbatch=0)
    done = server("10.0.0.8:50102", span("forward", 20, 60))
    (joined, _), lost = join_servers([client(asked), done])
    assert rows(joined) == [(FORWARD, 0, 0, 10, 90)]
    assert [(entry.what, entry.count) for entry in lost] == [
        ("devices reached over a network", 2),
        ("spans", 1),
    ]


def test_without_such_devices_nothing_is_changed() -> None:
    plain = process([declared(0, 0, (0, 4), "CUDA0")], [span("forward", 1, 2)])
    (same,), lost = join_servers([plain])
    assert (same, lost) == (plain, [])
