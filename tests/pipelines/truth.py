"""The truth about an execution, one nanosecond after the other.

Nothing here is clever: what holds in a nanosecond is in a set or not, each rule is asked in turn,
and blame walks from stage to stage within one nanosecond. Which work belongs together comes from
the simulation, not from the order in a recording.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from tests.pipelines.execution import Execution, Work

Interval = tuple[int, int]
Culprit = tuple[int, str]
Blame = dict[tuple[int, int, str], int]


class UndefinedError(Exception):
    """The definition of the states and of blame leaves open what is true here."""


@dataclass(frozen=True)
class Waiting:
    """Something is pending: in which state, since when, for which stage.

    cause: "token" or "tp_skew" where the wait itself says why.
    """

    state: str
    since: int
    awaited: int
    cause: str | None = None


@dataclass(frozen=True)
class Truth:
    """What every nanosecond of the window is.

    states: per rank, one state per nanosecond.
    leaders: per stage, the rank with the most compute, whose states are the stage's.
    culprits: per stage, culprit stage and cause of every nanosecond; None where it does not wait.
    bursts: begin and end of each.
    """

    window: Interval
    states: tuple[tuple[str, ...], ...]
    leaders: tuple[int, ...]
    culprits: tuple[tuple[Culprit | None, ...], ...]
    bursts: tuple[Interval, ...]

    @property
    def blame(self) -> Blame:
        """(waiting stage, culprit stage, cause) -> ns; only what occurs."""
        return dict(
            Counter(
                (stage, *culprit)
                for stage, culprits in enumerate(self.culprits)
                for culprit in culprits
                if culprit
            )
        )

    def totals(self, rank: int) -> dict[str, int]:
        """State -> ns of one rank; only states that occur."""
        return dict(Counter(self.states[rank]))

    def concurrency(self) -> dict[int, int]:
        """How many stages compute at once -> ns; only numbers that occur."""
        at_once = zip(*(self.states[leader] for leader in self.leaders), strict=True)
        return dict(Counter(states.count("compute") for states in at_once))


@dataclass
class _Device:
    """The nanoseconds in which something holds on one device."""

    computes: set[int] = field(default_factory=set)
    moves: set[int] = field(default_factory=set)
    waits: dict[int, list[Waiting]] = field(default_factory=lambda: defaultdict(list))
    untold: set[int] = field(default_factory=set)


def truth(
    execution: Execution,
    idle_gap: int,
    *,
    window: Interval | None = None,
    requests: Sequence[Interval] = (),
    phases_known: bool = False,
    copies: Sequence[Interval] = (),
) -> Truth:
    """Name the state of every nanosecond and whom to blame for every waiting one.

    requests: begin and end of each, where the recording has a request table; else bursts are what
        quiet times longer than `idle_gap` part.
    phases_known: the recording tells which steps are decode.
    copies: when the state of a sequence is saved or restored: the host's time where no device computes.
    """
    works = execution.works
    begin, end = window or (min(work.begin for work in works), max(work.end for work in works))
    if requests:
        bursts = _runs({ns for request in requests for ns in range(*request)}, 0)
    else:
        bursts = _quiet_bursts(works, idle_gap, phases_known)
    devices = _devices(execution)
    copying = {ns for copy in copies for ns in range(*copy)}.difference(*(each.computes for each in devices))
    states = tuple(
        tuple(_states(range(begin, end), device, _edges(execution, rank, bursts), copying))
        for rank, device in enumerate(devices)
    )
    leaders = tuple(
        _leader(execution, stage, devices, set(range(begin, end))) for stage in sorted(set(execution.stages))
    )
    culprits = []
    for ns in range(begin, end):
        now = [
            (_busy_with(states[leader][ns - begin], ns in copying), devices[leader].waits[ns])
            for leader in leaders
        ]
        culprits.append([_culprit(stage, now) for stage in range(len(leaders))])
    by_stage = tuple(zip(*culprits, strict=True))
    return Truth((begin, end), states, leaders, by_stage, tuple(bursts))


# Bursts


def _quiet_bursts(works: Sequence[Work], idle_gap: int, phases_known: bool) -> list[Interval]:
    bursts = _runs({ns for work in works for ns in range(work.begin, work.end)}, idle_gap)
    joined = bursts[:1]
    for begin, end in bursts[1:]:
        if phases_known and _decodes_next(works, begin):
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((begin, end))
    return joined


def _runs(covered: set[int], gap: int) -> list[Interval]:
    """Stretches of covered nanoseconds, joined over holes of up to `gap`."""
    first, *rest = sorted(covered)
    runs = [(first, first + 1)]
    for ns in rest:
        begin, end = runs[-1]
        if ns - end > gap:
            runs.append((ns, ns + 1))
        else:
            runs[-1] = (begin, ns + 1)
    return runs


def _decodes_next(works: Sequence[Work], ns: int) -> bool:
    later = [work for work in works if work.computes and work.begin >= ns]
    return min(later, key=lambda work: work.begin).launch.phase == "decode"


def _edges(execution: Execution, rank: int, bursts: Sequence[Interval]) -> dict[Interval, Interval]:
    """Per burst: when the rank's first compute begins, and when its last compute and last send to a
    later stage have both ended."""
    edges = {}
    for begin, end in bursts:
        mine = [work for work in execution.works if work.rank == rank and begin <= work.begin < end]
        computes = [work for work in mine if work.computes]
        if not computes:
            raise UndefinedError(f"rank {rank} computes nothing in the burst at {begin}")
        forward = [
            work
            for work in mine
            if work.launch.operation == "send" and execution.stages[work.launch.peer] > execution.stages[rank]
        ]
        edges[(begin, end)] = (
            min(work.begin for work in computes),
            max(work.end for work in (*computes, *forward)),
        )
    return edges


# What holds on each device


def _devices(execution: Execution) -> list[_Device]:
    devices = [_Device() for _ in execution.stages]
    matches: dict[Hashable, list[Work]] = defaultdict(list)
    for work in execution.works:
        if work.computes:
            devices[work.rank].computes.update(range(work.begin, work.end))
        elif work.match is not None:
            matches[work.match].append(work)
    pairs: list[tuple[Work, Work]] = []
    for sides in matches.values():
        operation = sides[0].launch.operation
        if len(sides) < (
            2 if operation in ("send", "recv") else len(execution.groups[sides[0].launch.group])
        ):
            for work in sides:
                devices[work.rank].untold.update(range(work.begin, work.end))
        elif operation in ("send", "recv"):
            send, receive = sorted(sides, key=lambda work: work.launch.operation, reverse=True)
            pairs.append((send, receive))
        else:
            _collective(execution, devices, sides)
    for send, receive in pairs:
        _message(execution, devices, send, receive, pairs)
    return devices


def _message(
    execution: Execution, devices: list[_Device], send: Work, receive: Work, pairs: list[tuple[Work, Work]]
) -> None:
    source, target = devices[send.rank], devices[receive.rank]
    if send.end <= receive.begin:
        copying = send.end - min(send.end - send.begin, _copy_time(send, pairs))
        source.moves.update(range(copying, send.end))
        target.moves.update(range(receive.begin, receive.end))
        pending = range(send.begin, copying)
    else:
        met = max(send.begin, receive.begin)
        source.moves.update(range(met, send.end))
        target.moves.update(range(met, receive.end))
        pending = range(send.begin, met)
    here, there = execution.stages[send.rank], execution.stages[receive.rank]
    for ns in pending:
        source.waits[ns].append(Waiting("blocked", send.begin, there))
    cause = "token" if here > there and not send.launch.bulky else None
    for ns in range(receive.begin, send.begin):
        target.waits[ns].append(Waiting("starved", receive.begin, here, cause))


def _copy_time(send: Work, pairs: list[tuple[Work, Work]]) -> int:
    """How long an eager send moves data, told from the sends of its size between the same two."""
    alike = [
        pair
        for pair in pairs
        if (pair[0].rank, pair[1].rank, pair[0].launch.size)
        == (send.rank, send.launch.peer, send.launch.size)
    ]
    ready = [s.end - s.begin for s, r in alike if r.begin <= s.begin]
    direct = [s.end - max(s.begin, r.begin) for s, r in alike if s.end > r.begin]
    shortest = min(s.end - s.begin for s, _ in alike)
    ns = median(ready or direct or [shortest])
    if ns != int(ns):
        raise UndefinedError(f"half a nanosecond: {ns}")
    return int(ns)


def _collective(execution: Execution, devices: list[_Device], sides: list[Work]) -> None:
    met = max(work.begin for work in sides)
    late = {execution.stages[work.rank] for work in sides if work.begin == met}
    for work in sides:
        devices[work.rank].moves.update(range(met, work.end))
        if work.begin == met:
            continue
        if len(late) > 1:
            raise UndefinedError(f"two stages come last at {met}")
        (awaited,) = late
        own = execution.stages[work.rank]
        cause = "tp_skew" if awaited == own else "token" if awaited > own else None
        for ns in range(work.begin, met):
            devices[work.rank].waits[ns].append(Waiting("starved", work.begin, awaited, cause))


# The state of each nanosecond


def _states(
    window: range, device: _Device, edges: Mapping[Interval, Interval], copying: set[int]
) -> list[str]:
    return [_state(ns, device, edges, ns in copying) for ns in window]


def _state(ns: int, device: _Device, edges: Mapping[Interval, Interval], copying: bool) -> str:
    if ns in device.computes:
        return "compute"
    if ns in device.moves:
        return "transfer"
    burst = next((burst for burst in edges if burst[0] <= ns < burst[1]), None)
    if burst is None:
        return "idle"
    first, last = edges[burst]
    if ns < first and not copying:
        return "fill"
    if ns >= last and not copying:
        return "drain"
    if ns in device.untold:
        raise UndefinedError(f"the other side of what is pending at {ns} is not recorded")
    pending = {wait.state for wait in device.waits[ns]}
    if "starved" in pending:
        return "starved"
    if "blocked" in pending:
        return "blocked"
    return "host"


def _leader(execution: Execution, stage: int, devices: Sequence[_Device], window: set[int]) -> int:
    """The rank that computes most, in the window as in the whole recording."""
    ranks = [rank for rank, of in enumerate(execution.stages) if of == stage]
    most = {_only_most({rank: len(devices[rank].computes) for rank in ranks})}
    most.add(_only_most({rank: len(devices[rank].computes & window) for rank in ranks}))
    if len(most) > 1:
        raise UndefinedError(f"in the window another rank of stage {stage} computes most than in all")
    return most.pop()


def _only_most(compute: Mapping[int, int]) -> int:
    most = [rank for rank, ns in compute.items() if ns == max(compute.values())]
    if len(most) > 1:
        raise UndefinedError(f"ranks {most} compute equally much")
    return most[0]


# Blame


def _busy_with(state: str, copying: bool) -> str:
    return "state" if copying and state == "host" else state


def _culprit(stage: int, now: Sequence[tuple[str, list[Waiting]]]) -> Culprit | None:
    """Follow, within one nanosecond, who waits for whom.

    now: per stage, its state ("state" where its host copies that of a sequence) and what is pending on it.
    """
    if now[stage][0] not in ("starved", "blocked", "host", "state"):
        return None
    seen: list[int] = []
    while stage not in seen:
        state, pending = now[stage]
        if state in ("compute", "transfer", "host", "state"):
            return stage, state
        if state in ("fill", "drain", "idle"):
            return stage, "unknown"
        wait = _first([wait for wait in pending if wait.state == state])
        if wait.cause == "tp_skew":
            return stage, "tp_skew"
        if wait.cause == "token":
            return wait.awaited, "token"
        seen.append(stage)
        stage = wait.awaited
    first_awaited = seen[1] if len(seen) > 1 else stage
    return first_awaited, "follow_on"


def _first(pending: Sequence[Waiting]) -> Waiting:
    first = min(pending, key=lambda wait: wait.since)
    if any(
        (wait.awaited, wait.cause) != (first.awaited, first.cause)
        for wait in pending
        if wait.since == first.since
    ):
        raise UndefinedError(f"two waits begin at {first.since}")
    return first
