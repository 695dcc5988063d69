"""What moves between ranks: the operation, its group, the peer and the bytes of a kernel or range."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bubblescope.trace.frames import UNKNOWN
from bubblescope.trace.part import Message

#: Names of operations, each before those that it contains ("reducescatter" before "reduce").
_OPERATIONS = (
    "allreduce", "allgather", "reducescatter", "alltoall", "broadcast", "barrier", "gather", "scatter",
    "reduce", "send", "recv",
)  # fmt: skip
#: Kernels that only communicate: NCCL's and RCCL's, and the all-reduces that engines and torch bring.
_KERNEL = re.compile(r"nccl\w*Kernel|rcclGenericKernel|mscclKernel", re.IGNORECASE)
_OWN_ALLREDUCE = re.compile(
    r"cross_device_reduce|(?:one_shot|two_shot|multimem)_all_reduce|allreduce_fusion_kernel|allreduce_prototype"
)
_ANNOTATION = re.compile(
    r"nccl:(?:(?P<way>send|recv) (?P<own>\d{1,9})(?:->|<-)(?P<peer>\d{1,9})|(?P<other>[\w ]+))"
)
_ELEMENT_BYTES = {
    "float": 4, "bfloat16": 2, "half": 2, "double": 8, "long": 8, "int": 4, "short": 2, "char": 1, "byte": 1,
    "bool": 1, "uint16": 2, "uint32": 4, "uint64": 8, "complexfloat": 8, "complexdouble": 16,
}  # fmt: skip


@dataclass(frozen=True)
class Transfer:
    """What a slice moves; `operation` "" where it moves nothing between ranks."""

    operation: str = ""
    group: str = ""
    peer: int = UNKNOWN
    bytes: int = UNKNOWN


def of_message(message: Message, own: int | None, groups: Mapping[str, Sequence[int]]) -> Transfer:
    """The transfer that a kernel's arguments tell; `own` is the rank that wrote them."""
    operation = operation_named(message.collective)
    ranks = member_ranks(message.ranks) or groups.get(message.group, ())
    peer = message.destination if operation == "send" else message.source if operation == "recv" else None
    return Transfer(operation, message.group, global_rank(peer, own, ranks), _bytes(message))


def of_annotation(name: str, own: int | None, groups: Mapping[str, Sequence[int]]) -> Transfer | None:
    """The transfer that a range like `nccl:send 0->1` tells; None for any other range.

    The first number is this rank's own, so it shows whether both are global or places in a group.
    """
    match = _ANNOTATION.fullmatch(name)
    if match is None:
        return None
    if match["other"]:
        return Transfer(operation_named(match["other"]))
    place, peer = int(match["own"]), int(match["peer"])
    if own is None or own == place:
        return Transfer(match["way"], peer=peer)
    peers = {
        ranks[peer] for ranks in groups.values() if max(place, peer) < len(ranks) and ranks[place] == own
    }
    return Transfer(match["way"], peer=peers.pop() if len(peers) == 1 else UNKNOWN)


def of_kernel_name(name: str) -> Transfer:
    """What a kernel's name tells of it."""
    if _OWN_ALLREDUCE.search(name):
        return Transfer("allreduce")
    if not _KERNEL.search(name):
        return Transfer()
    title = name.partition("(")[0]
    return Transfer("unknown" if "sendrecv" in title.lower() else operation_named(title))


def of_host_range(name: str) -> Transfer:
    """What a range on the host moves by itself: messages through gloo."""
    return Transfer(name[5:], group="gloo") if name in ("gloo:send", "gloo:recv") else Transfer()


def operation_named(text: str) -> str:
    """The operation that a name speaks of, "unknown" where it speaks of none."""
    letters = re.sub("[^a-z]", "", text.lower())
    return next((operation for operation in _OPERATIONS if operation in letters), "unknown")


def member_ranks(text: str) -> tuple[int, ...]:
    """The ranks in "[0, 1]"; none where the list is shortened or is no list."""
    if not re.fullmatch(r"\[[\d, ]*\]", text):
        return ()
    return tuple(int(number) for number in re.findall(r"\d{1,9}", text))


def global_rank(peer: int | None, own: int | None, ranks: Sequence[int]) -> int:
    """The global number of a peer that is written either by its place in the group or globally.

    A rank is never its own peer. Where both readings are possible the place in the group wins,
    since that is what torch writes.
    """
    if peer is None or peer < 0:
        return UNKNOWN
    if not ranks:
        return peer
    if peer < len(ranks) and ranks[peer] != own:
        return ranks[peer]
    return peer if peer in ranks and peer != own else UNKNOWN


def _bytes(message: Message) -> int:
    dtype = message.dtype.lower()
    size = 1 if dtype.startswith("float8") else _ELEMENT_BYTES.get(dtype)
    if message.elements is None or message.elements < 0 or size is None:
        return UNKNOWN
    return message.elements * size
