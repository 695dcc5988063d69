"""What a profiler would have written of an execution: a trace, or one Kineto file per rank."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bubblescope.trace import frames
from bubblescope.trace.frames import REQUESTS, SLICES, SPANS, TRACKS, UNKNOWN
from bubblescope.trace.model import Device, Group, Run, Trace
from tests.pipelines.execution import Execution, Work

#: Clocks do not begin at 0: times are as large as real ones, where a float loses nanoseconds.
ORIGIN_NS = 1_790_857_026_000_000_000 + 5_112_119_402_743_359


def recorded_late(execution: Execution, rank: int, ns: int) -> Execution:
    """The same, where the profiler of one rank began at a time: it has no earlier work."""
    works = tuple(work for work in execution.works if work.rank != rank or work.begin >= ns)
    return replace(execution, works=works)


def recorded(
    execution: Execution,
    *,
    requests: Sequence[tuple[int, int]] = (),
    phases: bool = False,
    window: tuple[int, int] | None = None,
    copies: Sequence[tuple[int, int]] = (),
) -> Trace:
    """The trace of an execution on GPUs.

    requests: arrival and end of each, for a request table.
    phases: with the engine's own forward spans, which tell prefill from decode.
    window: the measured part, marked in the recording.
    copies: when the host saved the state of a sequence.
    """
    lanes = sorted({(work.rank, work.launch.stream) for work in execution.works})
    tracks: dict[str, Sequence[Any]] = {
        "device": [rank for rank, _ in lanes],
        "process": [f"process {rank}" for rank, _ in lanes],
        "lane": [f"stream {stream}" for _, stream in lanes],
        "kind": ["stream"] * len(lanes),
    }
    rows = [
        {
            "track": lanes.index((work.rank, work.launch.stream)),
            "name": work.launch.name,
            "category": work.launch.category,
            "begin_ns": work.begin + ORIGIN_NS,
            "end_ns": work.end + ORIGIN_NS,
            "correlation": number,
            "operation": work.launch.operation,
            "group": work.launch.group,
            "peer": work.launch.peer,
            "bytes": work.launch.size,
        }
        for number, work in enumerate(execution.works)
    ]
    run = _run(execution)
    if window:
        run = replace(run, window_ns=(window[0] + ORIGIN_NS, window[1] + ORIGIN_NS))
    return Trace(
        run,
        tracks=frames.table(TRACKS, tracks),
        slices=_table(SLICES, rows),
        spans=_table(SPANS, [*(_forwards(execution) if phases else []), *map(_save, copies)]),
        requests=_requests(requests),
    )


def recorded_as_spans(execution: Execution) -> Trace:
    """The trace of an engine on CPUs: no device work, a span for each thing that a stage does."""
    messages = [
        _span(execution, work, kind=work.launch.operation, peer=execution.stages[work.launch.peer])
        for work in execution.works
        if work.launch.operation in ("send", "recv")
    ]
    return Trace(_run(execution), spans=_table(SPANS, [*_forwards(execution), *messages]))


def _run(execution: Execution) -> Run:
    devices = tuple(
        Device(rank=rank, stage=stage, ordinal=rank, name="NVIDIA H200", host="host0")
        for rank, stage in enumerate(execution.stages)
    )
    groups = tuple(Group(name, name, ranks) for name, ranks in execution.groups.items())
    return Run(devices, world_size=len(devices), groups=groups)


def _forwards(execution: Execution) -> list[dict[str, Any]]:
    return [_span(execution, work, kind="forward", peer=UNKNOWN) for work in execution.works if work.computes]


def _span(execution: Execution, work: Work, *, kind: str, peer: int) -> dict[str, Any]:
    return {
        "stage": execution.stages[work.rank],
        "device": work.rank,
        "step": work.launch.step,
        "microbatch": work.launch.step,
        "kind": kind,
        "phase": work.launch.phase,
        "tokens": UNKNOWN,
        "prefix": UNKNOWN,
        "layer_begin": UNKNOWN,
        "layer_end": UNKNOWN,
        "peer": peer,
        "bytes": work.launch.size,
        "begin_ns": work.begin + ORIGIN_NS,
        "end_ns": work.end + ORIGIN_NS,
        "clock": "host",
    }


def _save(copy: tuple[int, int]) -> dict[str, Any]:
    times = {"begin_ns": copy[0] + ORIGIN_NS, "end_ns": copy[1] + ORIGIN_NS}
    unknown = ("step", "microbatch", "tokens", "prefix", "layer_begin", "layer_end", "peer")
    named = {"stage": 0, "device": 0, "kind": "save", "phase": "unknown", "bytes": 1000, "clock": "host"}
    return {**named, **dict.fromkeys(unknown, UNKNOWN), **times}


def _requests(requests: Sequence[tuple[int, int]]) -> Any:
    rows = [
        {
            "request": f"request {number}",
            "arrival_ns": arrival + ORIGIN_NS,
            "first_token_ns": end + ORIGIN_NS,
            "end_ns": end + ORIGIN_NS,
            "prompt_tokens": 100,
            "output_tokens": 1,
            "warmup": False,
        }
        for number, (arrival, end) in enumerate(requests)
    ]
    return _table(REQUESTS, rows)


def _table(schema: frames.Schema, rows: Sequence[Mapping[str, Any]]) -> Any:
    return frames.table(
        schema, {name: [row[name] for row in rows] for name in schema.columns.keys() - schema.defaults.keys()}
    )


def write_kineto(execution: Execution, folder: Path, bases: Sequence[int]) -> None:
    """One torch profiler file per rank, each with times since a base of its own, as torch writes them:
    microseconds with three decimals."""
    for rank, base in enumerate(bases):
        works = [work for work in execution.works if work.rank == rank]
        events = ",\n".join(_kineto_event(execution, work, number, base) for number, work in enumerate(works))
        head = {
            "schemaVersion": 1,
            "deviceProperties": [
                {"id": other, "name": "NVIDIA H200", "computeMajor": 9, "computeMinor": 0}
                for other in range(len(bases))
            ],
            "distributedInfo": {
                "backend": "nccl",
                "rank": rank,
                "world_size": len(bases),
                "pg_config": [
                    {"pg_name": name, "pg_desc": name, "pg_size": len(ranks), "ranks": list(ranks)}
                    for name, ranks in execution.groups.items()
                    if rank in ranks
                ],
            },
            "baseTimeNanoseconds": base,
        }
        text = f'{json.dumps(head)[:-1]}, "traceEvents": [\n{events}\n]}}'
        (folder / f"rank{rank}.pt.trace.json").write_text(text)


def _kineto_event(execution: Execution, work: Work, correlation: int, base: int) -> str:
    launch = work.launch
    streams = sorted({other.launch.stream for other in execution.works if other.rank == work.rank})
    stream = 7 + streams.index(launch.stream)
    args: dict[str, Any] = {"device": work.rank, "stream": stream, "correlation": correlation}
    if launch.operation:
        ranks = list(execution.groups[launch.group])
        args |= {
            "Collective name": launch.operation,
            "In msg nelems": launch.size // 2,
            "Out msg nelems": launch.size // 2,
            "dtype": "BFloat16",
            "Group size": len(ranks),
            "Process Group Name": launch.group,
            "Process Group Description": launch.group,
            "Process Group Ranks": str(ranks),
        }
    if launch.operation in ("send", "recv"):
        args["Dst Rank" if launch.operation == "send" else "Src Rank"] = launch.peer
    category = {"kernel": "kernel", "copy": "gpu_memcpy", "memset": "gpu_memset"}[launch.category]
    head = json.dumps({"ph": "X", "cat": category, "name": launch.name, "pid": work.rank, "tid": stream})
    begin, duration = work.begin + ORIGIN_NS - base, work.end - work.begin
    return f'{head[:-1]}, "ts": {_micro(begin)}, "dur": {_micro(duration)}, "args": {json.dumps(args)}}}'


def _micro(ns: int) -> str:
    return f"{ns // 1000}.{ns % 1000:03d}"
