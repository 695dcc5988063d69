"""The parts of a forward: seen as finely as an engine lets them be seen, and it is told how finely."""

from __future__ import annotations

from pathlib import Path

import pytest

from bubblescope.collectors._bubblescope_inject import layout
from tests.collectors.programs import recorded

#: A stage of layers 4 and 5, some of which can be seen.
STAGE = """
from _bubblescope_inject import parts

class Layer:
    def forward(self):
        return 7

layers = [(Layer(), "forward", number) for number in (4, 5)]
stage = recorder.stage(1, layers=(4, 6))

def begin(kind, part):
    span = part.span(kind, step=3, microbatch=3).begin()
    return lambda _: span.end()

"""


@pytest.mark.parametrize(
    ("watched", "seen", "kinds"),
    [
        ("layers, []", '"layers"', ["layer", "layer"]),
        ("layers, layers", '"layers"', ["layer", "layer"]),
        ("[], layers", '"attention"', ["attention", "attention"]),
        ("[], []", '"stages"', []),
        ("[(Layer(), 'gone', 4)], []", '"stages"', []),
    ],
)
def test_each_layer_is_seen_or_its_attention_or_the_stage_as_a_whole(
    tmp_path: Path, watched: str, seen: str, kinds: list[str]
) -> None:
    process = recorded(
        f"{STAGE}parts.watch(stage, {watched}, begin)\n"
        "assert [layer.forward() for layer, *_ in layers] == [7, 7]",
        tmp_path,
    )
    assert process.facts["detail"][1] == seen
    rows = process.spans[["kind", "layer_begin", "layer_end"]].tolist()
    layers = [(4, 5), (5, 6)] if kinds else []
    assert rows == [(layout.KINDS.index(k), *layer) for k, layer in zip(kinds, layers, strict=True)]


def test_an_engine_that_differs_costs_an_event_and_nothing_else(tmp_path: Path) -> None:
    process = recorded(
        f"{STAGE}parts.watch(stage, [(1, 2)], [], begin)\nassert Layer().forward() == 7", tmp_path
    )
    assert ("detail" in process.facts, process.lost["refused"]) == (False, 1)


@pytest.mark.parametrize(("environment", "wanted"), [({}, False), ({"BUBBLESCOPE_DETAIL": "layers"}, True)])
def test_they_are_recorded_where_they_are_asked_for(
    tmp_path: Path, environment: dict[str, str], wanted: bool
) -> None:
    process = recorded(
        'from _bubblescope_inject import parts\nrecorder.fact("wanted", parts.wanted())',
        tmp_path,
        **environment,
    )
    assert process.facts["wanted"][1] == str(wanted).lower()
