"""What a recording lacks or could not be used of it, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from bubblescope.trace.model import Lost, Trace
from bubblescope.trace.part import MOST_HOST_OPS
from bubblescope.trace.processes import Process
from bubblescope.trace.ranks import missing_ranks, ranks_in_words

#: What is wrong with events that were left out: (what they are, why they are not used).
_DROPPED = {
    "no_time": ("events without a time", "a slice whose begin is missing or no number cannot be placed"),
    "unfinished": ("unfinished slices", "they have a begin and no end"),
    "negative": ("slices with a negative duration", "they are treated as unfinished"),
    "unpaired": ("ends without a begin", "nothing on their lane was open"),
}


def shortfalls(processes: Sequence[Process], trace: Trace) -> Iterator[Lost]:
    """Everything to be said of the recording, the most important first."""
    if not trace.run.clock.aligned:
        yield Lost("a common clock", f"{trace.run.clock.how}; do not compare times of different devices")
    yield from _of_ranks(processes)
    of_lanes = [process for process in processes if process.lanes_are_devices]
    if of_lanes:
        yield Lost(
            "devices",
            "no event says what it is, so every lane is taken as a device: lanes taken as devices",
            sum(len(process.lanes) for process in of_lanes),
        )
    yield from _of_events(processes)
    unknown = int((trace.slices["operation"] == "unknown").sum())
    if unknown:
        yield Lost(
            "what communication kernels do",
            "neither their arguments nor a range around them names the operation",
            unknown,
        )


def _of_ranks(processes: Sequence[Process]) -> Iterator[Lost]:
    unnamed = [process for process in processes if process.rank is None and not process.lanes_are_devices]
    if unnamed:
        files = ", ".join(dict.fromkeys(process.file for process in unnamed[:4]))
        yield Lost("rank", f"neither the recording nor the name of its file tells it: {files}", len(unnamed))
    ranks = Counter(process.rank for process in processes if process.rank is not None)
    for rank, count in sorted(ranks.items()):
        if count > 1:
            files = ", ".join(dict.fromkeys(p.file for p in processes if p.rank == rank))
            yield Lost(
                f"one recording for rank {rank}", f"it is here {count} times, all are used: {files}", count
            )
    world_size = max((p.facts.world_size for p in processes if p.facts.world_size), default=None)
    missing = missing_ranks(ranks, world_size) if ranks else []
    if missing:
        count = sum(last - first + 1 for first, last in missing)
        yield Lost(ranks_in_words(missing), "took part, and this recording does not hold it", count)


def _of_events(processes: Sequence[Process]) -> Iterator[Lost]:
    dropped: Counter[str] = Counter()
    for process in processes:
        dropped.update(process.part.dropped)
    for reason, (what, why) in _DROPPED.items():
        if dropped[reason]:
            yield Lost(what, why, dropped[reason])
    outliers = sum(process.outliers for process in processes)
    if outliers:
        yield Lost("slices at impossible times", "they lie more than a day away from all others", outliers)
    more = sum(
        max(0, process.part.host_ops - MOST_HOST_OPS) for process in processes if not process.part.on_device
    )
    if more:
        yield Lost("operators on the host", f"only the first {MOST_HOST_OPS} of a file are kept", more)
