"""Spool folders and traces made into one trace file."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from bubblescope.collectors._bubblescope_inject.room import entries, in_use
from bubblescope.errors import UsageError
from bubblescope.record.assemble import traces_of
from bubblescope.record.destination import Destination
from bubblescope.record.ending import FAILURE_FACT
from bubblescope.record.join import join
from bubblescope.record.later_run import numbered_after
from bubblescope.trace.frames import COUNTERS, REQUESTS, SLICES, SPANS
from bubblescope.trace.model import Lost, Trace
from bubblescope.trace.read import read_trace
from bubblescope.trace.source import shown
from bubblescope.trace.write import write_trace

#: What is being done, for a person who waits.
Progress = Callable[[str], None]
_PATIENCE_S = 2.0


class MergeInterruptedError(Exception):
    """A signal ended the merge before the trace was written."""


@dataclass(frozen=True)
class Merged:
    """The trace that was written, and what the sources lack, without what they were added to."""

    trace: Trace
    lost: tuple[Lost, ...]


def merge(sources: Sequence[Path], destination: Destination, progress: Progress) -> Merged:
    """Write one trace of spool folders and traces.

    Raises NotATraceError for a source that is neither, UsageError if the trace cannot be written or two
    sources hold the same recording.
    """
    before = [destination.trace] if destination.append and destination.trace.exists() else []
    sources = [*before, *sources]
    traces_of_sources = [_read(source, progress) for source in sources]
    _refuse_doubles(sources, traces_of_sources)
    traces = [trace for of_source in traces_of_sources for trace in of_source]
    kept, new = traces[: len(before)], traces[len(before) :]
    trace = join([*kept, *numbered_after(kept[0], new)] if kept else new)
    progress(f"writing {destination.trace.name}")
    write_trace(trace, destination.trace, force=destination.force or destination.append)
    return Merged(trace, tuple(dict.fromkeys(lost for each in new for lost in each.run.lost)))


def summary(trace: Trace) -> str:
    """What is in a trace, in a few words."""
    stages = len({device.stage for device in trace.run.devices} - {None})
    kernels = int((trace.slices["category"] == "kernel").sum())
    counts = [(len(trace.spans), "span"), (stages, "stage"), (len(trace.requests), "request")]
    counts += [(kernels, "kernel")] if kernels else []
    return ", ".join(f"{count} {what}{'' if count == 1 else 's'}" for count, what in counts)


def is_spool(path: Path) -> bool:
    """Whether a path is a folder with spool files in it."""
    try:
        return path.is_dir() and bool(entries(str(path)))
    except OSError:
        return False


def wait_for_writers(spool: Path) -> None:
    """Give processes that outlive the command a moment to end; what they write later is lost."""
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline and any(in_use(entry.path) for entry in entries(str(spool))):
        time.sleep(0.02)


@contextlib.contextmanager
def interruptible(warn: Callable[[], None]) -> Iterator[None]:
    """Let a signal end the merge with MergeInterruptedError; the first Ctrl-C only warns.

    Whoever ends a server with Ctrl-C is apt to press it twice.
    """
    presses = []

    def interrupt(number: int, _: object) -> None:
        presses.append(number)
        if presses == [signal.SIGINT]:
            warn()
        else:
            raise MergeInterruptedError

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _refuse_doubles(sources: Sequence[Path], traces: Sequence[Sequence[Trace]]) -> None:
    """Raises UsageError if most of what one source holds is in another too: all would count twice."""
    events = [_events(of_source) for of_source in traces]
    for second in range(len(sources)):
        for first in range(second):
            smaller = min(len(events[first]), len(events[second]))
            shared = len(np.intersect1d(events[first], events[second], assume_unique=True))
            if smaller and 2 * shared >= smaller:
                raise UsageError(
                    f"{shown(sources[second])}: {shown(sources[first])} holds the same recording, "
                    "which would count twice; name one of them"
                )


def _events(traces: Sequence[Trace]) -> npt.NDArray[np.uint64]:
    """A number for each row of the tables, whatever its device is called there; each number once."""
    rows = [
        pd.util.hash_pandas_object(
            getattr(trace, schema.name).drop(columns=["device", "track"], errors="ignore"), index=False
        )
        for trace in traces
        for schema in (SLICES, SPANS, REQUESTS, COUNTERS)
    ]
    return np.unique(np.concatenate(rows))


def _explained(traces: Sequence[Trace], spool: Path) -> list[Trace]:
    """The traces of a spool, with what its command said of its failure if its recorder was killed."""
    from bubblescope.record.explanation import cut_off

    if any("exit_status" in trace.run.facts for trace in traces):
        return list(traces)
    found = cut_off(spool)
    if found is None:
        return list(traces)
    first = traces[0].run
    told = replace(first, facts={**first.facts, FAILURE_FACT: found})
    return [replace(traces[0], run=told), *traces[1:]]


def _read(source: Path, progress: Progress) -> list[Trace]:
    def files(done: int, total: int) -> None:
        progress(f"reading {source.name}: {done} of {total} files")

    def size(done: int, total: int) -> None:
        progress(f"reading {source.name}: {done >> 20} of {total >> 20} MiB")

    if not is_spool(source):
        return [read_trace(source, size)]
    return _explained(traces_of(os.fspath(source), files), source)
