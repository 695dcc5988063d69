"""Rank and stage out of names, and which ranks a recording lacks."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise

_RANK = tuple(
    re.compile(rf"(?<![a-z]){word}[-_ ]?(\d{{1,6}})", re.IGNORECASE) for word in ("rank", "worker", "host")
)
_AXIS = {
    axis: re.compile(rf"(?<![a-z]){axis}[-_ ]?(\d{{1,6}})", re.IGNORECASE) for axis in ("pp", "tp", "dp")
}


@dataclass(frozen=True)
class Place:
    """Where in the job a name says that a process is; None where it does not.

    rank: counted over all processes. pp, tp, dp: along that axis of parallelism.
    """

    rank: int | None = None
    pp: int | None = None
    tp: int | None = None
    dp: int | None = None


def place_in(name: str) -> Place:
    """The place that a name like `dp0_pp1_tp0_rank1`, `TP-0-PP-1` or `worker3` tells."""
    rank = next((int(match[1]) for word in _RANK if (match := word.search(name))), None)
    axes = {axis: int(match[1]) for axis, word in _AXIS.items() if (match := word.search(name))}
    return Place(rank, **axes)


def rank_along(place: Place, tp_size: int) -> int | None:
    """The rank of a place that is told by its axes alone: tensor parallelism counts fastest."""
    if place.pp is None or place.tp is None or place.dp:
        return None
    return place.pp * tp_size + place.tp


def missing_ranks(present: Collection[int], world_size: int | None) -> list[tuple[int, int]]:
    """The ranks that are not there, as first and last of each stretch."""
    end = max(world_size or 0, *(rank + 1 for rank in present), 0)
    borders = [-1, *sorted(rank for rank in set(present) if rank < end), end]
    return [(left + 1, right - 1) for left, right in pairwise(borders) if right - left > 1]


def ranks_in_words(stretches: list[tuple[int, int]]) -> str:
    """For example "rank 1", "ranks 1, 3" or "ranks 1-7, 9"."""
    words = [str(first) if first == last else f"{first}-{last}" for first, last in stretches]
    several = len(words) > 1 or (bool(stretches) and stretches[0][0] != stretches[0][1])
    return ("ranks " if several else "rank ") + ", ".join(words)
