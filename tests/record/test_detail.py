"""What a recording lacks of the detail that was asked for is said by name."""

from __future__ import annotations

import pytest

from bubblescope.record.assemble import assemble
from tests.record.processes import declared, process, span

FORWARDS = [span("forward", 10, 30, microbatch=1), span("forward", 40, 60, microbatch=2)]
ASKED = {"detail_asked": (1, '"layers"')}
LAYERS, ATTENTION = [
    [span(kind, 12, 20, microbatch=number) for number in (1, 2)] for kind in ("layer", "attention")
]


def lost(
    told: str | None, parts: list[dict[str, int]], asked: bool = True
) -> list[tuple[str, str, int | None]]:
    facts = {**(ASKED if asked else {}), **({"detail": (1, f'"{told}"')} if told else {})}
    trace = assemble([process(stages=[declared(0)], spans=[*FORWARDS, *parts], facts=facts)])
    return [(each.what, each.why, each.count) for each in trace.run.lost]


@pytest.mark.parametrize(("told", "parts", "asked"), [("layers", LAYERS, True), (None, [], False)])
def test_nothing_where_it_is_all_there_or_was_not_asked_for(
    told: str | None, parts: list[dict[str, int]], asked: bool
) -> None:
    assert lost(told, parts, asked) == []


@pytest.mark.parametrize(
    ("told", "parts", "why"),
    [
        ("attention", ATTENTION, "the model is compiled, so of each layer only the attention is recorded"),
        ("stages", [], "neither they nor their attention could be found in the engine's model"),
        (None, [], "the engine's collector does not record them"),
    ],
)
def test_why_the_layers_are_not_there(told: str | None, parts: list[dict[str, int]], why: str) -> None:
    assert lost(told, parts) == [("layers one by one", why, None)]


def test_how_many_forwards_have_no_parts() -> None:
    why = "their steps ran as one CUDA graph each, so only the stage as a whole is recorded"
    assert lost("layers", LAYERS[:1]) == [("parts of forwards", why, 1)]
