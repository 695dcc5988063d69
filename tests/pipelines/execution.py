"""Play a program: when every launch begins and ends, by the rules of streams and of NCCL.

- A kernel begins once it is launched, its stream is free and what it waits for has ended.
- A rendezvous message moves from the later of the two begins on; the send runs until then too.
- With `buffers` messages of room from one rank to another a send copies into the buffer as soon as
  there is room, and ends, whether its receive has begun or not. Room is free again when a receive
  ends. A receive that finds its message in the buffer drains it in the time that the copy took.
- A collective moves from the last participant's begin on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from tests.pipelines.program import Launch, Program, Rank, Spend, Ticket, Until, Wait

Key = tuple[int, Ticket]


@dataclass(frozen=True)
class Work:
    """One launch as it ran on its device.

    match: the same on all sides of one message or collective; None for other work.
    """

    rank: int
    launch: Launch
    begin: int
    end: int
    match: Hashable = None

    @property
    def computes(self) -> bool:
        return self.launch.category == "kernel" and not self.launch.operation


@dataclass(frozen=True)
class Execution:
    """All work of all ranks; `stages` has the stage of each rank."""

    stages: tuple[int, ...]
    groups: Mapping[str, tuple[int, ...]]
    works: tuple[Work, ...]


def play(program: Program) -> Execution:
    """Run a program to its end; AssertionError where it can never end."""
    matches = _matches(program.ranks)
    begins: dict[Key, int] = {}
    ends: dict[Key, int] = {}
    size = -1
    while size != len(begins) + len(ends):
        size = len(begins) + len(ends)
        for rank in program.ranks:
            _begin(rank, program.stagger, begins, ends)
        for match, sides in matches.items():
            _finish(program, match, sides, matches, begins, ends)
    launches = {
        (rank.number, ticket): action
        for rank in program.ranks
        for ticket, action in enumerate(rank.actions)
        if isinstance(action, Launch)
    }
    stuck = launches.keys() - ends.keys()
    assert not stuck, f"deadlock: {sorted(stuck)}"
    match_of = {key: match for match, sides in matches.items() for key in sides}
    works = [
        Work(key[0], launch, begins[key], ends[key], match_of.get(key)) for key, launch in launches.items()
    ]
    stages = tuple(rank.stage for rank in program.ranks)
    return Execution(stages, program.groups, tuple(sorted(works, key=lambda work: (work.begin, work.rank))))


def _matches(ranks: tuple[Rank, ...]) -> dict[tuple[object, ...], dict[Key, Launch]]:
    """Which launches belong together: per pair and group, or group, those of the same order."""
    counts: dict[Hashable, int] = defaultdict(int)
    matches: dict[tuple[object, ...], dict[Key, Launch]] = defaultdict(dict)
    for rank in ranks:
        for ticket, action in enumerate(rank.actions):
            if not isinstance(action, Launch) or not action.operation:
                continue
            way: tuple[int, ...] = ()
            if action.operation == "send":
                way = (rank.number, action.peer)
            elif action.operation == "recv":
                way = (action.peer, rank.number)
            nth = (rank.number, action.group, *way)
            matches[(action.group, *way, counts[nth])][rank.number, ticket] = action
            counts[nth] += 1
    return matches


def _begin(rank: Rank, stagger: int, begins: dict[Key, int], ends: dict[Key, int]) -> None:
    """Follow the host as far as the known ends allow, and begin what can begin."""
    clock = 0
    last: dict[str, Ticket] = {}
    for ticket, action in enumerate(rank.actions):
        key = (rank.number, ticket)
        if isinstance(action, Spend):
            clock += action.ns
        elif isinstance(action, Until):
            clock = max(clock, action.ns)
        elif isinstance(action, Wait):
            if (rank.number, action.ticket) not in ends:
                return
            clock = max(clock, ends[rank.number, action.ticket])
        else:
            before = [*action.after, *([last[action.stream]] if action.stream in last else [])]
            last[action.stream] = ticket
            known = [ends.get((rank.number, other)) for other in before]
            free = [end for end in known if end is not None]
            if len(free) == len(known):
                begins[key] = max([clock, *free]) + stagger * list(last).index(action.stream)
                if not action.operation:
                    ends[key] = begins[key] + action.ns


def _finish(
    program: Program,
    match: tuple[object, ...],
    sides: dict[Key, Launch],
    matches: Mapping[tuple[object, ...], dict[Key, Launch]],
    begins: dict[Key, int],
    ends: dict[Key, int],
) -> None:
    """End the sides of a message or collective as soon as it is known when they can."""
    send = next((key for key, launch in sides.items() if launch.operation == "send"), None)
    if send is None:
        if len(sides) == len(program.groups[str(match[0])]) and all(key in begins for key in sides):
            last = max(begins[key] for key in sides)
            ends.update({key: last + launch.ns for key, launch in sides.items()})
        return
    receive = next(key for key in sides if key != send)
    ns = sides[send].ns
    if send not in begins:
        return
    if program.buffers:
        room = _room(program, match, matches, ends)
        if room is None:
            return
        ends[send] = max(begins[send], room) + ns
        if receive in begins:
            ends[receive] = max(ends[send], begins[receive] + ns) + program.lag
    elif receive in begins:
        ends[send] = max(begins[send], begins[receive]) + ns
        ends[receive] = ends[send] + program.lag


def _room(
    program: Program,
    match: tuple[object, ...],
    matches: Mapping[tuple[object, ...], dict[Key, Launch]],
    ends: Mapping[Key, int],
) -> int | None:
    """From when on the buffer has room for a message; None while that is not known."""
    *way, order = match
    assert isinstance(order, int)
    if order < program.buffers:
        return 0
    earlier = matches[(*way, order - program.buffers)]
    receive = next(key for key, launch in earlier.items() if launch.operation == "recv")
    return ends.get(receive)
