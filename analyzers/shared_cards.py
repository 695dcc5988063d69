"""Stages that run on one card, as far as their processes told which card they have."""

from __future__ import annotations

from collections.abc import Sequence

from bubblescope.trace.frames import UNKNOWN
from bubblescope.trace.model import Lost, Trace

#: Facts of these names tell the UUID of the card of a stage and rank, "uuid:STAGE:RANK".
_FACT = "uuid:{}:{}"


def shared_cards(trace: Trace, stage_of: Sequence[int | None]) -> tuple[tuple[int, ...], ...]:
    """The stages of every card that has several; `stage_of`: of each device, None for none."""
    on: dict[str, set[int]] = {}
    for device, stage in zip(trace.run.devices, stage_of, strict=True):
        uuid = trace.run.facts.get(_FACT.format(stage, UNKNOWN if device.rank is None else device.rank))
        if stage is not None and isinstance(uuid, str) and uuid:
            on.setdefault(uuid, set()).add(stage)
    return tuple(sorted(tuple(sorted(own)) for own in on.values() if len(own) > 1))


def doubts(shared: tuple[tuple[int, ...], ...]) -> tuple[Lost, ...]:
    """That stages of one card are in each other's way."""
    return tuple(
        Lost(
            "cards of their own",
            f"stages {' and '.join(map(str, own))} run on one card: what one of them computes may "
            "keep another waiting, and counts as that one's host",
        )
        for own in shared
    )
