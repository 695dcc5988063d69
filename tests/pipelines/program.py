"""What the host of each rank does: launches on streams, waits, and time spent on its own.

As on a GPU, a launch returns at once. What was launched runs in the order of its stream, and
not before everything that it names in `after` has ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

#: A launch within the program of its rank.
Ticket = int


@dataclass(frozen=True)
class Launch:
    """One piece of device work; see `tests.pipelines.execution.Work` for the shared fields.

    ns: how long a kernel or copy runs; of a message or collective: how long it moves data.
    bulky: False for messages that bring back sampled tokens.
    """

    stream: str
    name: str
    category: str
    ns: int
    after: tuple[Ticket, ...]
    operation: str = ""
    group: str = ""
    peer: int = -1
    size: int = -1
    bulky: bool = True
    step: int = -1
    phase: str = "unknown"


@dataclass(frozen=True)
class Wait:
    """The host waits until a launch of its own has ended."""

    ticket: Ticket


@dataclass(frozen=True)
class Spend:
    """The host is busy with something of its own."""

    ns: int


@dataclass(frozen=True)
class Until:
    """The host sleeps until a time (if that is not past)."""

    ns: int


Action = Launch | Wait | Spend | Until


@dataclass
class Rank:
    """The program of one rank, written in the order in which its host runs it."""

    number: int
    stage: int
    actions: list[Action] = field(default_factory=list)

    def compute(
        self, ns: int, after: Iterable[Ticket] = (), *, step: int = -1, phase: str = "unknown"
    ) -> Ticket:
        return self._launch(Launch("compute", "gemm", "kernel", ns, tuple(after), step=step, phase=phase))

    def copy(self, ns: int, after: Iterable[Ticket] = (), category: str = "copy") -> Ticket:
        """A copy or memset, on the stream of the computing kernels."""
        return self._launch(Launch("compute", category, category, ns, tuple(after)))

    def send(
        self,
        to: int,
        size: int,
        ns: int,
        after: Iterable[Ticket] = (),
        *,
        bulky: bool = True,
        group: str = "pp",
    ) -> Ticket:
        return self._message("send", f"to {to}", to, size, ns, after, bulky, group)

    def receive(
        self,
        sender: int,
        size: int,
        ns: int,
        after: Iterable[Ticket] = (),
        *,
        bulky: bool = True,
        group: str = "pp",
    ) -> Ticket:
        return self._message("recv", f"from {sender}", sender, size, ns, after, bulky, group)

    def collective(
        self, operation: str, group: str, ns: int, size: int, after: Iterable[Ticket] = ()
    ) -> Ticket:
        name = f"ncclDevKernel_{operation.capitalize()}"
        return self._launch(Launch(group, name, "kernel", ns, tuple(after), operation, group, size=size))

    def wait(self, ticket: Ticket) -> None:
        self.actions.append(Wait(ticket))

    def spend(self, ns: int) -> None:
        self.actions.append(Spend(ns))

    def until(self, ns: int) -> None:
        self.actions.append(Until(ns))

    def _message(
        self,
        operation: str,
        stream: str,
        peer: int,
        size: int,
        ns: int,
        after: Iterable[Ticket],
        bulky: bool,
        group: str,
    ) -> Ticket:
        name = "ncclDevKernel_SendRecv"
        return self._launch(
            Launch(stream, name, "kernel", ns, tuple(after), operation, group, peer, size, bulky)
        )

    def _launch(self, launch: Launch) -> Ticket:
        self.actions.append(launch)
        return len(self.actions) - 1


@dataclass(frozen=True)
class Program:
    """What all ranks do. `groups` are the process groups by name.

    buffers: how many messages from one rank to another are taken before their receive begins.
    lag: how much later than its send a receive ends.
    stagger: how much later each further stream of a rank begins what several could begin at once.
    """

    ranks: tuple[Rank, ...]
    groups: Mapping[str, tuple[int, ...]]
    buffers: int = 0
    lag: int = 0
    stagger: int = 0
