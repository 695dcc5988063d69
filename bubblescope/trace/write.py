"""Writing a recording as one Chrome Trace Event file that Perfetto opens and that reads back exactly."""

from __future__ import annotations

import gzip
import math
import os
from collections.abc import Iterator
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import IO, Any, cast

import orjson
import pandas as pd

from bubblescope.errors import UsageError
from bubblescope.trace.frames import SPAN_KINDS
from bubblescope.trace.model import Device, Trace
from bubblescope.trace.own_format import KEY, REQUEST_CATEGORY, SCHEMA, SPAN_CATEGORY
from bubblescope.trace.redact import redacted
from bubblescope.trace.whole_file import whole_file

_ROWS_AT_ONCE = 20_000
_COMPRESSION = 6
#: Thread numbers of the lanes that show spans and counters lie above those of tracks.
_SPAN_LANES = 1_000_000

Json = dict[str, Any]


def write_trace(trace: Trace, path: str | PathLike[str], force: bool = False) -> None:
    """Write a recording, without secrets, to `path`; gzipped if its name ends in `.gz`.

    The file appears whole or not at all. Raises UsageError where it exists and `force` is not
    given, and where it cannot be written.
    """
    target = Path(os.path.realpath(path))
    with whole_file(target, force) as file:
        _write(redacted(trace), file, compress=target.suffix == ".gz")


def _write(trace: Trace, file: IO[bytes], compress: bool) -> None:
    if not compress:
        _write_json(trace, file)
        return
    # No name and no time inside, so that equal recordings give equal files.
    with gzip.GzipFile("", "wb", _COMPRESSION, file, mtime=0) as packed:
        _write_json(trace, cast(IO[bytes], packed))


def _write_json(trace: Trace, file: IO[bytes]) -> None:
    file.write(b'{"%b":%b,"displayTimeUnit":"ms","traceEvents":[' % (KEY.encode(), _header(trace)))
    separator = b"\n"
    for events in _events(trace):
        if events:
            file.write(separator + orjson.dumps(events, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1])
            separator = b",\n"
    file.write(b"\n]}\n")


def _header(trace: Trace) -> bytes:
    """The run, the tracks and the number of rows of each table, as JSON."""
    header = {
        "schema": SCHEMA,
        "run": asdict(trace.run),
        "tracks": {name: trace.tracks[name].tolist() for name in trace.tracks.columns},
        "rows": {name: len(getattr(trace, name)) for name in ("slices", "spans", "requests", "counters")},
    }
    try:
        return orjson.dumps(header)
    except TypeError as error:
        raise UsageError(f"the facts of this recording cannot be written as JSON: {error}") from None


def _events(trace: Trace) -> Iterator[list[Json]]:
    """All events, some thousand at a time."""
    origin = _first_ns(trace)
    requests_pid = len(trace.run.devices)
    yield _names(trace, requests_pid)
    devices = trace.tracks["device"].tolist()
    for rows in _rows(trace.slices):
        yield [_slice(row, devices[row["track"]], origin) for row in rows]
    for rows in _rows(trace.spans):
        yield [_span(row, origin) for row in rows]
    for number, rows in enumerate(_rows(trace.requests)):
        first = number * _ROWS_AT_ONCE
        yield [
            event for i, row in enumerate(rows) for event in _request(row, first + i, requests_pid, origin)
        ]
    for rows in _rows(trace.counters):
        yield [_counter(row, origin) for row in rows]


def _rows(frame: pd.DataFrame) -> Iterator[list[Json]]:
    for begin in range(0, len(frame), _ROWS_AT_ONCE):
        part = frame.iloc[begin : begin + _ROWS_AT_ONCE]
        columns = [part[name].tolist() for name in part.columns]
        yield [dict(zip(part.columns, row, strict=True)) for row in zip(*columns, strict=True)]


def _first_ns(trace: Trace) -> int:
    """The time that the viewer's microseconds count from."""
    columns = (
        (trace.slices, "begin_ns"), (trace.spans, "begin_ns"), (trace.requests, "arrival_ns"),
        (trace.counters, "time_ns"),
    )  # fmt: skip
    return min((int(frame[name].min()) for frame, name in columns if len(frame)), default=0)


def _names(trace: Trace, requests_pid: int) -> list[Json]:
    """How a viewer is to call and order processes and lanes."""
    processes = [_device_name(number, device) for number, device in enumerate(trace.run.devices)]
    events = [_name("process_name", pid, 0, text) for pid, text in enumerate([*processes, "requests"])]
    tracks = zip(trace.tracks["device"].tolist(), trace.tracks["lane"].tolist(), strict=True)
    events += [_name("thread_name", device, track, lane) for track, (device, lane) in enumerate(tracks)]
    lanes = trace.spans[["device", "stage", "kind"]].drop_duplicates()
    for device, stage, kind in lanes.itertuples(index=False):
        events.append(_name("thread_name", int(device), _span_lane(stage, kind), f"stage {stage} {kind}"))
    return events


def _name(what: str, pid: int, tid: int, text: str) -> Json:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": text}}


def _device_name(number: int, device: Device) -> str:
    facts = {"rank": device.rank, "stage": device.stage}
    told = [f"{key} {value}" for key, value in facts.items() if value is not None]
    return " · ".join([f"device {number}", *([device.name] if device.name else []), *told])


def _span_lane(stage: int, kind: str) -> int:
    return _SPAN_LANES + (int(stage) + 1) * len(SPAN_KINDS) + SPAN_KINDS.index(kind)


def _interval(begin: int, end: int, origin: int) -> Json:
    return {"ts": (begin - origin) / 1000, "dur": (end - begin) / 1000}


def _slice(row: Json, device: int, origin: int) -> Json:
    arguments = {"begin_ns": row["begin_ns"], "end_ns": row["end_ns"]}
    arguments |= {
        name: row[name] for name in ("correlation", "peer", "bytes", "microbatch") if row[name] != -1
    }
    arguments |= {name: row[name] for name in ("operation", "group", "span") if row[name]}
    event = {"ph": "X", "cat": row["category"], "name": row["name"], "pid": device, "tid": row["track"]}
    return event | _interval(row["begin_ns"], row["end_ns"], origin) | {"args": arguments}


def _span(row: Json, origin: int) -> Json:
    lane = _span_lane(row["stage"], row["kind"])
    event = {"ph": "X", "cat": SPAN_CATEGORY, "name": row["kind"], "pid": row["device"], "tid": lane}
    return event | _interval(row["begin_ns"], row["end_ns"], origin) | {"args": row}


def _request(row: Json, number: int, pid: int, origin: int) -> list[Json]:
    """A request as an asynchronous event, since requests overlap."""
    times: Json = {name: None if pd.isna(row[name]) else row[name] for name in ("first_token_ns", "end_ns")}
    common = {"cat": REQUEST_CATEGORY, "name": row["request"], "id": number, "pid": pid, "tid": 0}
    arguments = {name: value for name, value in (row | times).items() if name != "request"}
    begin = {"ph": "b", "ts": (row["arrival_ns"] - origin) / 1000, **common, "args": arguments}
    if times["end_ns"] is None:
        return [begin]
    return [begin, {"ph": "e", "ts": (times["end_ns"] - origin) / 1000, **common}]


def _counter(row: Json, origin: int) -> Json:
    value = row["value"] if math.isfinite(row["value"]) else str(row["value"])
    return {
        "ph": "C",
        "name": row["name"],
        "pid": row["device"],
        "ts": (row["time_ns"] - origin) / 1000,
        "args": {"value": value},
        "time_ns": row["time_ns"],
    }
