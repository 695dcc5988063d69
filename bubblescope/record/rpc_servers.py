"""Devices that llama.cpp reaches over a network, seen from both sides.

A client knows which ubatch it sends, and only the server when it is computed. Where both were recorded on
one host, the server's times take the place of the client's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import orjson

from bubblescope.collectors._bubblescope_inject import layout
from bubblescope.record.spool import Process, Slots
from bubblescope.trace.model import Lost

#: What a server calls its stages: this, its address, "]".
SERVER = "rpc-server["
#: In this fact a client tells the address behind each of its devices.
_ADDRESSES_FACT = "llama_device_descriptions"
_FORWARD = layout.KINDS.index("forward")
_MESSAGES = (layout.KINDS.index("send"), layout.KINDS.index("recv"))
#: What the client knows of a forward and the server does not.
_OF_CLIENT = ("step", "microbatch", "tokens", "prefix", "phase", "layer_begin", "layer_end")
#: Names by which a server of this host is asked to listen or is reached.
_THIS_HOST = {"127.0.0.1", "localhost", "0.0.0.0", "::1", "::", "[::1]"}


class _End(NamedTuple):
    """One end of a connection: its address, how manyth device there, whose stage of what number it is."""

    host: str
    port: str
    place: int
    process: int
    stage: int


def join_servers(processes: Sequence[Process]) -> tuple[list[Process], list[Lost]]:
    """The processes, what servers computed being among the spans of their clients; and what could not be."""
    clients, servers = list(_clients(processes)), list(_servers(processes))
    pairs = []
    for server in servers:
        client = next((client for client in clients if _meet(client, server)), None)
        if client is not None:
            clients.remove(client)
            pairs.append((client, server))
    joined = list(processes)
    for client, server in pairs:
        joined[client.process] = _with_times_of(
            joined[client.process], client.stage, processes[server.process], server.stage
        )
    alone = 0
    for server in servers:
        before = joined[server.process]
        joined[server.process] = _without(before, server.stage)
        if all(server != met for _, met in pairs):
            alone += int((before.spans["stage"] == server.stage).sum())
    return joined, [*_losses(len(clients), alone)]


def _losses(unseen: int, alone: int) -> Iterator[Lost]:
    if unseen:
        why = "their servers were not recorded: they are seen from the client only, and may be done earlier"
        yield Lost("devices reached over a network", why, unseen)
    if alone:
        yield Lost("spans", "they are of an rpc-server whose client was not recorded", alone)


def _clients(processes: Sequence[Process]) -> Iterator[_End]:
    for number, process in enumerate(processes):
        addresses = _addresses(process)
        for stage, declared in process.stages.items():
            if declared.device.startswith("RPC") and declared.device in addresses:
                address = addresses[declared.device]
                before = [name for name in addresses if addresses[name] == address and name.startswith("RPC")]
                yield _end(address, sorted(before).index(declared.device), number, stage)


def _servers(processes: Sequence[Process]) -> Iterator[_End]:
    for number, process in enumerate(processes):
        for stage, declared in process.stages.items():
            if declared.device.startswith(SERVER):
                address = declared.device.removeprefix(SERVER).removesuffix("]")
                yield _end(address, declared.ordinal, number, stage)


def _addresses(process: Process) -> dict[str, str]:
    """Addresses by the names of devices, where a client tells them."""
    try:
        told = orjson.loads(process.facts[_ADDRESSES_FACT][1])
    except (KeyError, ValueError):
        return {}
    pairs = told.items() if isinstance(told, dict) else ()
    return {name: address for name, address in pairs if isinstance(address, str)}


def _end(address: str, place: int, process: int, stage: int) -> _End:
    host, _, port = address.rpartition(":")
    return _End("" if host in _THIS_HOST else host, port, place, process, stage)


def _meet(client: _End, server: _End) -> bool:
    # A server that listens on all addresses is reached by any.
    return (client.port, client.place) == (server.port, server.place) and (
        client.host == server.host or not server.host
    )


def _with_times_of(client: Process, stage: int, server: Process, its_stage: int) -> Process:
    """The client's process with the server's times for what it had the server compute."""
    spans = client.spans
    asked = np.sort(spans[(spans["stage"] == stage) & (spans["kind"] == _FORWARD)], order="begin_ns")
    done = _at(server.spans, its_stage)
    if not len(asked):
        return client
    # The server begins what the client asked for last.
    of = np.searchsorted(asked["begin_ns"], done["begin_ns"], side="right") - 1
    done, of = done[of >= 0], of[of >= 0]
    for field in _OF_CLIENT:
        done[field] = asked[field][of]
    done["stage"] = stage
    seen = np.isin(spans["microbatch"], done["microbatch"])
    kept = spans[~((spans["stage"] == stage) & (spans["kind"] == _FORWARD) & seen)]
    open_spans = _at(server.open_spans, its_stage)
    open_spans["stage"] = stage
    return replace(
        client,
        spans=np.concatenate([_between_forwards(kept, stage, done), done]),
        open_spans=np.concatenate([client.open_spans, open_spans]),
    )


def _between_forwards(spans: Slots, stage: int, forwards: Slots) -> Slots:
    """The spans with the messages of a stage begun no sooner than it was done with what was before them."""
    out = spans.copy()
    ends = np.sort(forwards["end_ns"])
    messages = np.flatnonzero((out["stage"] == stage) & np.isin(out["kind"], _MESSAGES))
    before = np.searchsorted(ends, out["end_ns"][messages], side="right") - 1
    messages, before = messages[before >= 0], before[before >= 0]
    out["begin_ns"][messages] = np.maximum(out["begin_ns"][messages], ends[before])
    return out


def _without(process: Process, stage: int) -> Process:
    return replace(
        process,
        stages={number: declared for number, declared in process.stages.items() if number != stage},
        spans=process.spans[process.spans["stage"] != stage],
        open_spans=process.open_spans[process.open_spans["stage"] != stage],
    )


def _at(slots: Slots, stage: int) -> Slots:
    of_stage: Slots = slots[slots["stage"] == stage].copy()
    return of_stage
