"""Stages that run on one card, as far as their processes told which card they have."""

from __future__ import annotations

from collections.abc import Sequence

from bubblescope.analyzers.results import Stage
from bubblescope.trace.model import Lost, Run, card_uuids


def shared_cards(run: Run, stages: Sequence[Stage]) -> tuple[tuple[int, ...], ...]:
    """The stages of every card that has several."""
    uuids = card_uuids(run.facts, run.devices)
    on: dict[str, set[int]] = {}
    for stage in stages:
        for uuid in filter(None, (uuids.get(device) for device in stage.devices)):
            on.setdefault(uuid, set()).add(stage.stage)
    return tuple(sorted(tuple(sorted(own)) for own in on.values() if len(own) > 1))


def doubts(run: Run, stages: Sequence[Stage]) -> tuple[Lost, ...]:
    """That stages of one card are in each other's way."""
    return tuple(
        Lost(
            "cards of their own",
            f"stages {' and '.join(map(str, own))} run on one card: what one of them computes may "
            "keep another waiting, and counts as that one's host",
        )
        for own in shared_cards(run, stages)
    )
