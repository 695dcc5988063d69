"""How the clocks of several hosts stand to each other, from the messages between them.

No message is received before it is sent. Each one therefore bounds how far the receiver's clock can
be behind the sender's; messages both ways, or round a ring of hosts, bound it from both sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import pandas as pd

_MESSAGE = ["source", "destination", "microbatch"]
_UNBOUNDED = 1 << 100
_CONTRADICTION = "the messages between the hosts contradict any fixed offset between their clocks"
_ONE_WAY = "between some hosts there are no matched messages, or only in one direction"


@dataclass(frozen=True)
class Alignment:
    """What to subtract from each host's times to have them on the first host's clock.

    offsets_ns: one per host, the first is 0; None where they cannot be told.
    uncertainty_ns: how far the times of two hosts may still be apart; None with the offsets.
    how: in words.
    """

    offsets_ns: tuple[int, ...] | None
    uncertainty_ns: int | None
    how: str


def align(spans: Sequence[pd.DataFrame]) -> Alignment:
    """The clocks of hosts, out of the spans tables that each has recorded on its own clock."""
    hosts = range(len(spans))
    matched = {(a, b): _matched(spans[a], spans[b]) for a, b in product(hosts, hosts) if a != b}
    #: latest[a, b]: the most by which b's clock can be ahead of a's.
    latest = {
        pair: int((of_pair["received"] - of_pair["sent"]).min()) if len(of_pair) else _UNBOUNDED
        for pair, of_pair in matched.items()
    } | {(host, host): 0 for host in hosts}
    for via, a, b in product(hosts, hosts, hosts):
        latest[a, b] = min(latest[a, b], latest[a, via] + latest[via, b])
    if any(latest[host, host] < 0 for host in hosts):
        return Alignment(None, None, _CONTRADICTION)
    if any(limit >= _UNBOUNDED // 2 for limit in latest.values()):
        return Alignment(None, None, _ONE_WAY)
    offsets = tuple((latest[0, host] - latest[host, 0]) // 2 for host in hosts)
    uncertainty = max(latest[a, b] - (offsets[b] - offsets[a]) for a, b in latest)
    count = sum(map(len, matched.values()))
    how = f"offsets between {len(spans)} hosts estimated from {count} messages matched between them"
    return Alignment(offsets, uncertainty, how)


def _matched(sender: pd.DataFrame, receiver: pd.DataFrame) -> pd.DataFrame:
    """Messages from one host to another: when the first part was `sent`, the last `received`."""
    sends = sender[sender["kind"] == "send"].rename(columns={"stage": "source", "peer": "destination"})
    receives = receiver[receiver["kind"] == "recv"].rename(columns={"peer": "source", "stage": "destination"})
    return pd.concat(
        {
            "sent": sends.groupby(_MESSAGE)["begin_ns"].min(),
            "received": receives.groupby(_MESSAGE)["end_ns"].max(),
        },
        axis=1,
        join="inner",
    )
