"""From a spool folder to a trace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from bubblescope.collectors._bubblescope_inject import last_words, layout
from bubblescope.record import activity, cards, disk, linkage, llama_log, tables
from bubblescope.record.agreement import disagreements
from bubblescope.record.detail import missing_detail
from bubblescope.record.hooks import missing_hooks
from bubblescope.record.late_events import sent_in_time
from bubblescope.record.rpc_servers import join_servers
from bubblescope.record.spool import NothingRecordedError, Process, Progress, read_spool
from bubblescope.trace.frames import TIME_LIMIT
from bubblescope.trace.model import Clock, Device, Lost, Run, Trace, card_uuids

#: By this fact `record` tells the merge what `--keep-seconds` was.
KEEP_SECONDS_FACT = "keep_seconds"
#: This fact names the clock of a trace's times: {"id": ..., "wall_offset_ns": ...}.
CLOCK_FACT = "clock"

_WHY = {
    "dropped": "the oldest went, to keep the recording within its bounds",
    "unwritten": "there was no room left on the disk",
    "refused": "a collector gave values that do not fit",
    "torn": "their process was killed while it wrote them",
    "unknown": "they are of a type that this version does not know",
    "damaged": "the spool holds values that cannot be",
}
_DAMAGE = ("damaged",)
MOST_NAMED = 4


def traces_of(folder: str, progress: Progress | None = None) -> list[Trace]:
    """One trace per host that wrote into a spool folder.

    Raises NothingRecordedError if no process wrote an event into it, NotATraceError if it is of a newer
    version.
    """
    processes, unreadable = read_spool(folder, progress)
    hosts: dict[str, list[Process]] = {}
    for process in processes:
        hosts.setdefault(process.clock, []).append(process)
    traces = [assemble(of_host) for of_host in hosts.values()]
    if all(is_bare(trace) for trace in traces):
        raise NothingRecordedError(f"{folder}: no process wrote an event, so there is nothing to merge")
    why = "they are not spool files, or cut off within their header"
    return [traces[0].with_lost(*_lost("files", len(unreadable), why, damage=True)), *traces[1:]]


def is_bare(trace: Trace) -> bool:
    """Whether a trace holds nothing but facts."""
    return not any(len(t) for t in (trace.slices, trace.spans, trace.requests, trace.counters))


def assemble(processes: Sequence[Process]) -> Trace:
    """The trace of processes that share a clock."""
    processes, unjoined = join_servers(processes)
    processes = sent_in_time(processes)
    facts, invalid = _facts(processes)
    where = activity.placed(processes, tables.devices(processes))
    devices = where.devices
    begin_ns = _kept_from(processes, facts.get(KEEP_SECONDS_FACT))
    spans, early = tables.spans(processes, devices, begin_ns)
    requests, without_arrival = tables.requests(processes, begin_ns)
    work = activity.work(processes, where, spans, begin_ns)
    tracks, slices = tables.together(
        (work.tracks, work.slices), tables.instants(processes, devices, begin_ns)
    )
    uuids = {**card_uuids(facts, devices.devices), **where.uuids}
    sampled = cards.sampled(processes, devices.devices, uuids, facts, begin_ns)
    told = tables.counters(processes, devices, begin_ns)
    running = sum(process.running for process in processes)
    return Trace(
        run=_run(facts, processes, devices.devices, begin_ns),
        tracks=tracks,
        slices=slices,
        spans=work.spans,
        requests=requests,
        counters=cards.together(told, sampled.counters),
    ).with_lost(
        *disk.lost(facts),
        *_lost_events(processes),
        *_lost("spans", early, "they ended before the time from which everything was kept"),
        *_lost("requests", without_arrival, "their arrival is not in the recording"),
        *_lost("facts", invalid, "they are not the JSON that their name asks for"),
        *_open_spans(processes),
        *unjoined,
        *missing_hooks(facts),
        *disagreements(spans),
        *activity.losses(processes),
        *missing_detail(facts, spans),
        *llama_log.lost(facts),
        *linkage.lost(facts),
        *sampled.lost,
        *_lost("processes, their later events", running, "they still ran when the recording was merged"),
    )


def _kept_from(processes: Sequence[Process], keep_seconds: object) -> int:
    """The time from which the events of every process are there and are to be kept; -1 if all are."""
    begins = [process.begins_ns for process in processes if process.begins_ns is not None]
    timed = [slots for process in processes for slots in (process.spans, process.activities) if len(slots)]
    ends = [int(slots["end_ns"].max()) for slots in timed]
    if isinstance(keep_seconds, int) and ends:
        begins.append(max(ends) - keep_seconds * 1_000_000_000)
    return max(begins, default=-1)


def _facts(processes: Sequence[Process]) -> tuple[dict[str, Any], int]:
    """The facts of all processes, of each name the last one written, and how many are not valid."""
    texts: dict[str, tuple[int, str]] = {}
    for process in processes:
        for name, fact in process.facts.items():
            if not name.startswith(activity.PREFIX):
                texts[name] = max(texts.get(name, fact), fact)
    facts, invalid = {}, 0
    for name, (_, text) in texts.items():
        if name.startswith(last_words.FACT_PREFIX):
            continue  # what matters of them is in the fact that explains a failure
        try:
            facts[name] = _valid(name, orjson.loads(text))
        except ValueError:
            invalid += 1
    return facts, invalid


def _valid(name: str, value: Any) -> Any:
    """The value as the run table takes it; raises ValueError if a known name has another kind of value."""
    if name in ("engine", "engine_version"):
        _require(isinstance(value, str))
    elif name == "model":
        _require(isinstance(value, dict))
    elif name == "world_size":
        _require(_is_count(value))
    elif name == "command":
        _require(isinstance(value, list) and all(isinstance(word, str) for word in value))
        return tuple(value)
    elif name == "partition":
        _require(isinstance(value, list) and len(value) > 0 and all(map(_is_count, value)))
        return tuple(value)
    elif name == "window_ns":
        _require(isinstance(value, list) and len(value) == 2 and all(map(_is_count, value)))
        _require(value[0] < value[1])
        return tuple(value)
    return value


def _require(holds: bool) -> None:
    if not holds:
        raise ValueError


def _is_count(value: object) -> bool:
    return type(value) is int and 0 < value < TIME_LIMIT


def _run(
    facts: Mapping[str, Any], processes: Sequence[Process], devices: tuple[Device, ...], begin_ns: int
) -> Run:
    fields = ("engine", "engine_version", "model", "world_size", "command", "partition", "window_ns")
    known = {name: facts[name] for name in fields if name in facts}
    if "window_ns" in known:
        known["window_ns"] = _what_is_left(known["window_ns"], begin_ns)
    others = {name: value for name, value in facts.items() if name not in fields}
    first = processes[0]
    others[CLOCK_FACT] = {"id": first.clock, "wall_offset_ns": first.wall_offset_ns}
    known.setdefault("partition", _declared_partition(processes))
    return Run(devices=devices, facts=others, clock=Clock(uncertainty_ns=0, how="one host"), **known)


def _what_is_left(window_ns: tuple[int, int], kept_from_ns: int) -> tuple[int, int] | None:
    """Of the measured part: who waited in what was thrown away, nobody can say."""
    begin_ns, end_ns = max(window_ns[0], kept_from_ns), window_ns[1]
    return (begin_ns, end_ns) if begin_ns < end_ns else None


def _declared_partition(processes: Sequence[Process]) -> tuple[int, ...] | None:
    """Layers per stage, if every stage from the first on told which it holds."""
    layers: dict[int, int] = {}
    for process in processes:
        for stage in process.stages.values():
            if 0 <= stage.layers[0] < stage.layers[1]:
                layers[stage.stage] = stage.layers[1] - stage.layers[0]
    complete = layers and sorted(layers) == list(range(len(layers)))
    return tuple(layers[stage] for stage in sorted(layers)) if complete else None


def _lost_events(processes: Sequence[Process]) -> Iterator[Lost]:
    counts: Counter[str] = Counter()
    for process in processes:
        counts.update(process.lost)
    for reason, why in _WHY.items():
        yield from _lost("events", counts[reason], why, damage=reason in _DAMAGE)


def _open_spans(processes: Sequence[Process]) -> Iterator[Lost]:
    named = []
    for process in processes:
        for row in process.open_spans:
            stage = process.stages[int(row["stage"])].stage
            named.append(f"{layout.KINDS[row['kind']]} of microbatch {row['microbatch']} on stage {stage}")
    more = f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
    yield from _lost("spans", len(named), f"they had not ended: {', '.join(named[:MOST_NAMED])}{more}")


def _lost(what: str, count: int, why: str, damage: bool = False) -> Iterator[Lost]:
    if count:
        yield Lost(what, why, count, damage)
