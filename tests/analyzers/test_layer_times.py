"""Layers recorded one by one: what each takes, and that nothing counts them beside the forward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from bubblescope.analyzers.advice.occupancy import occupancy
from bubblescope.analyzers.advice.recommend import recommend
from bubblescope.analyzers.analysis import analyze
from bubblescope.analyzers.layer_times import layer_times, unlike_layers
from bubblescope.analyzers.results import LAYER_TIMES
from bubblescope.trace.frames import SPANS, table
from bubblescope.trace.model import Device, Run, Trace
from tests.analyzers.advice.recordings import Model, chunks, played, recorded

#: stage, kind, microbatch, phase, first layer, layer after the last, begin, end
Row = tuple[int, str, int, str, int, int, int, int]

#: Two stages of two layers; the first takes 10 before its layers, 3 between them and 5 after them.
FORWARDS: list[Row] = [
    (0, "forward", 0, "prefill", 0, 2, 1000, 1100),
    (0, "forward", 1, "prefill", 0, 2, 1100, 1200),
    (1, "forward", 0, "prefill", 2, 4, 1100, 1180),
    (1, "forward", 1, "prefill", 2, 4, 1200, 1280),
    (0, "forward", 2, "decode", 0, 2, 1300, 1310),
]
LAYERS: list[Row] = [
    (0, "layer", 0, "prefill", 0, 1, 1010, 1050),
    (0, "layer", 0, "prefill", 1, 2, 1053, 1095),
    (0, "layer", 1, "prefill", 0, 1, 1110, 1160),
    (0, "layer", 1, "prefill", 1, 2, 1163, 1195),
    (0, "layer", 2, "decode", 0, 1, 1301, 1305),
]


def recording(rows: Sequence[Row]) -> Trace:
    stage, kind, microbatch, phase, first, last, begin, end = zip(*rows, strict=True)
    unknown = [-1] * len(rows)
    columns = {
        "stage": stage, "device": stage, "step": microbatch, "microbatch": microbatch, "kind": kind,
        "phase": phase, "tokens": unknown, "prefix": unknown, "layer_begin": first, "layer_end": last,
        "peer": unknown, "bytes": unknown, "begin_ns": begin, "end_ns": end, "clock": ["device"] * len(rows),
    }  # fmt: skip
    devices = tuple(Device(rank=number, stage=number, name="GPU") for number in (0, 1))
    return Trace(Run(devices=devices), spans=table(SPANS, columns))


def test_a_layer_has_its_sum_and_its_median_over_the_prefill() -> None:
    times = layer_times(recording(FORWARDS + LAYERS).spans, [0, 1], (1000, 1400))
    # Layer 0 took 40 and 50, layer 1 42 and 32; the decode step does not count.
    assert times.values.tolist() == [[0, 0, "layer", 2, 90, 45], [0, 1, "layer", 2, 74, 37]]


def test_a_window_has_the_layers_that_lie_in_it() -> None:
    times = layer_times(recording(FORWARDS + LAYERS).spans, [0, 1], (1100, 1400))
    assert times[["layer", "ns"]].values.tolist() == [[0, 50], [1, 32]]


def test_the_attention_of_layers_is_told_apart() -> None:
    attention: Row = (1, "attention", 0, "prefill", 2, 3, 1110, 1120)
    times = layer_times(recording([*FORWARDS, attention]).spans, [0, 1], (1000, 1400))
    assert times.values.tolist() == [[1, 2, "attention", 1, 10, 10]]


def test_nothing_else_changes_where_layers_are_recorded() -> None:
    without, with_layers = (analyze(recording(rows)) for rows in (FORWARDS, FORWARDS + LAYERS))
    assert with_layers.stages == without.stages
    assert with_layers.timeline.equals(without.timeline)
    assert with_layers.blame.equals(without.blame)
    assert with_layers.requests == without.requests
    assert (len(without.layer_times), len(with_layers.layer_times)) == (0, 2)


def test_the_cost_of_layers_is_theirs_and_not_that_of_what_is_done_around_them() -> None:
    work = occupancy(recording(FORWARDS + LAYERS).spans, [0, 1])
    # From the first layer's begin to the last one's end; stage 1, without layers, and the decode step,
    # of which one layer is missing, as a whole.
    assert work.layers_ns.tolist() == [[85, 85, 10], [80, 80, 0]]
    assert work.ends_ns.tolist() == [[15, 15, 0], [0, 0, 0]]


def of_layers(*medians_ns: int) -> pd.DataFrame:
    """Layers of stage 0 with these medians, and of stage 1 all alike."""
    count = len(medians_ns)
    columns = {
        "stage": [0] * count + [1] * count, "layer": list(range(2 * count)), "part": ["layer"] * 2 * count,
        "microbatches": [1] * 2 * count, "ns": [*medians_ns, *[5] * count],
        "median_ns": [*medians_ns, *[5] * count],
    }  # fmt: skip
    return table(LAYER_TIMES, columns)


def test_layers_are_unlike_if_one_takes_twice_as_long_as_another_of_its_stage() -> None:
    assert unlike_layers(of_layers(10, 19)) == []
    assert unlike_layers(of_layers(10, 12, 20)) == [0]
    assert unlike_layers(of_layers()) == []


def test_advice_that_takes_unlike_layers_for_alike_says_so() -> None:
    work = [*chunks(8000, 1000), *chunks(8000, 1000, at=10_000_000)]
    analysis = analyze(recorded(played(Model(), (6, 2), work), (6, 2), work))
    said = "layers are taken to be alike, and those of stage 0 are not: which of them move counts, too"
    assert analysis.recommendation.partition is not None
    assert said not in analysis.recommendation.remarks
    assert said in recommend(replace(analysis, layer_times=of_layers(10, 30))).remarks


def test_layers_of_other_ranks_of_a_stage_are_left_out() -> None:
    trace = recording(FORWARDS + LAYERS)
    spans = trace.spans.assign(device=trace.spans["device"] + 1)
    trace = replace(
        trace,
        run=replace(trace.run, devices=(Device(), *trace.run.devices)),
        spans=table(SPANS, {name: spans[name] for name in SPANS.columns}),
    )
    assert len(layer_times(trace.spans, [0, 2], (1000, 1400))) == 0
