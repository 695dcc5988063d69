"""Several traces made into one: of several hosts, or of one host recorded again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from bubblescope.errors import NotATraceError
from bubblescope.record.assemble import CLOCK_FACT, is_bare
from bubblescope.record.clocks import align
from bubblescope.trace.frames import (
    COUNTERS,
    REQUESTS,
    SLICES,
    SPANS,
    TIME_LIMIT,
    TRACKS,
    Schema,
    SchemaError,
    checked,
)
from bubblescope.trace.model import Clock, Device, Lost, Run, Trace

#: What the recordings of one run agree on; where they do not, nothing is said.
_AGREED = ("engine", "engine_version", "model", "partition", "world_size")
_TIMES = ("begin_ns", "end_ns", "time_ns", "arrival_ns", "first_token_ns")


def join(traces: Sequence[Trace]) -> Trace:
    """One trace on the clock of the first that holds events.

    Where the clocks of several hosts cannot be aligned, the hosts are placed by their wall clocks
    and `Run.clock` says that they are not aligned. Raises NotATraceError where they are decades apart.
    """
    traces = sorted(traces, key=is_bare)
    names = [clock_id(trace) or str(number) for number, trace in enumerate(traces)]
    hosts = [names.index(name) for name in names]
    offsets, clock = _common_clock(traces, hosts)
    shifted = [_shifted(trace, offsets[host]) for trace, host in zip(traces, hosts, strict=True)]
    devices, numbers = _devices(shifted, hosts)
    run, contradictions = _run(shifted)
    first_tracks = np.cumsum([0, *(len(trace.tracks) for trace in shifted)])
    tracks = [
        np.arange(first, first + len(t.tracks)) for first, t in zip(first_tracks, shifted, strict=False)
    ]
    return Trace(
        run=replace(run, devices=devices, clock=clock),
        tracks=_together(TRACKS, shifted, "device", numbers),
        slices=_together(SLICES, shifted, "track", tracks),
        spans=_together(SPANS, shifted, "device", numbers, ["begin_ns", "device"]),
        requests=_together(REQUESTS, shifted, order=["arrival_ns"]),
        counters=_together(COUNTERS, shifted, "device", numbers, ["time_ns"]),
    ).with_lost(*contradictions)


def clock_id(trace: Trace) -> str | None:
    """Names the clock of a trace's times; None if it was not recorded by us."""
    name = _clock_fact(trace).get("id")
    return name if isinstance(name, str) else None


def _clock_fact(trace: Trace) -> Mapping[str, Any]:
    fact = trace.run.facts.get(CLOCK_FACT)
    return fact if isinstance(fact, dict) else {}


def _common_clock(traces: Sequence[Trace], hosts: Sequence[int]) -> tuple[Mapping[int, int], Clock]:
    """What to subtract from the times of each host, and how good the common clock then is."""
    timed = {
        host: trace for trace, host in reversed([*zip(traces, hosts, strict=True)]) if not is_bare(trace)
    }
    order = sorted(timed)
    own = _worst([trace.run.clock for trace in traces if not is_bare(trace)])
    if len(order) < 2:
        return dict.fromkeys(hosts, 0), own
    alignment = align([_spans_of(host, traces, hosts) for host in order])
    if alignment.offsets_ns is None:
        walls = {host: _wall_offset_ns(timed[host]) for host in order}
        offsets = {host: walls[order[0]] - walls[host] for host in order}
        clock = Clock(False, None, f"{alignment.how}; the hosts are placed by their wall clocks")
    else:
        offsets = dict(zip(order, alignment.offsets_ns, strict=True))
        clock = _worst([own, Clock(True, alignment.uncertainty_ns, alignment.how)])
    return {host: offsets.get(host, 0) for host in hosts}, clock


def _spans_of(host: int, traces: Sequence[Trace], hosts: Sequence[int]) -> pd.DataFrame:
    return pd.concat([trace.spans for trace, of in zip(traces, hosts, strict=True) if of == host])


def _worst(clocks: Sequence[Clock]) -> Clock:
    def doubt(clock: Clock) -> tuple[bool, bool, int]:
        return not clock.aligned, clock.uncertainty_ns is None, clock.uncertainty_ns or 0

    return max(clocks, key=doubt, default=Clock())


def _wall_offset_ns(trace: Trace) -> int:
    offset = _clock_fact(trace).get("wall_offset_ns")
    return offset if type(offset) is int and abs(offset) <= TIME_LIMIT else 0


def _shifted(trace: Trace, offset_ns: int) -> Trace:
    """The trace with all its times earlier by `offset_ns`."""
    if offset_ns == 0:
        return trace
    tables = {
        schema.name: getattr(trace, schema.name).assign(
            **{
                name: getattr(trace, schema.name)[name] - offset_ns
                for name in _TIMES
                if name in schema.columns
            }
        )
        for schema in (SLICES, SPANS, REQUESTS, COUNTERS)
    }
    window = trace.run.window_ns
    if window is not None:
        window = window[0] - offset_ns, window[1] - offset_ns
    try:
        return replace(trace, run=replace(trace.run, window_ns=window), **tables)
    except SchemaError as error:
        raise NotATraceError(
            f"these recordings are not of one time ({error}); merge those of one run"
        ) from None


def _devices(
    traces: Sequence[Trace], hosts: Sequence[int]
) -> tuple[tuple[Device, ...], list[np.ndarray[Any, Any]]]:
    """All devices, and per trace where its own are among them.

    A device of a host that is in several traces is one. Its host's name may differ, since a trace
    that was written has host names taken out.
    """
    found: dict[tuple[int, Device, int], Device] = {}
    keys_of = []
    for trace, host in zip(traces, hosts, strict=True):
        nameless = [replace(device, host=None) for device in trace.run.devices]
        keys = [(host, device, nameless[:position].count(device)) for position, device in enumerate(nameless)]
        for key, device in zip(keys, trace.run.devices, strict=True):
            found.setdefault(key, device)
        keys_of.append(keys)
    order = {key: number for number, key in enumerate(found)}
    return tuple(found.values()), [np.array([order[key] for key in keys], np.int64) for keys in keys_of]


def _together(
    schema: Schema,
    traces: Sequence[Trace],
    column: str | None = None,
    numbers: Sequence[np.ndarray[Any, Any]] = (),
    order: Sequence[str] = (),
) -> pd.DataFrame:
    """One table of all traces' rows; `column` refers to what in each trace now has these numbers."""
    parts = [getattr(trace, schema.name) for trace in traces]
    if column is not None:
        parts = [
            part.assign(**{column: new[part[column].to_numpy(np.int64)]})
            for part, new in zip(parts, numbers, strict=True)
        ]
    whole = pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)
    return checked(schema, whole.sort_values(list(order), kind="stable") if order else whole)


def _run(traces: Sequence[Trace]) -> tuple[Run, list[Lost]]:
    """The facts of all runs without devices and clock, and what they contradict each other in."""
    runs = [trace.run for trace in traces]
    agreed: dict[str, Any] = {}
    contradictions = []
    for name in _AGREED:
        told = [value for run in runs if (value := getattr(run, name))]
        if all(value == told[0] for value in told[1:]):
            agreed |= {name: told[0]} if told else {}
        else:
            contradictions.append(Lost(name.replace("_", " "), "the joined recordings contradict each other"))
    windows = [run.window_ns for run in runs if run.window_ns is not None]
    return Run(
        **agreed,
        command=next((run.command for run in runs if run.command), ()),
        facts={name: value for run in reversed(runs) for name, value in run.facts.items()},
        groups=tuple(dict.fromkeys(group for run in runs for group in run.groups)),
        window_ns=(min(w[0] for w in windows), max(w[1] for w in windows)) if windows else None,
        lost=tuple(dict.fromkeys(lost for run in runs for lost in run.lost)),
    ), contradictions
