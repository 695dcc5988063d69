from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bubblescope.analyzers.advice.occupancy import CannotTellError, Occupancy, occupancy
from bubblescope.analyzers.advice.prompts import Prefill, prefill
from bubblescope.analyzers.analysis import analyze
from bubblescope.analyzers.results import Analysis, Options
from bubblescope.trace.frames import SPANS, table
from bubblescope.trace.model import Trace
from tests.analyzers.advice.recordings import Chunk, Model, chunks, occupied, played, recorded, requested
from tests.pipelines.recording import ORIGIN_NS

SPLIT = (3, 1)


def of(work: list[Chunk]) -> Trace:
    return recorded(played(Model(), SPLIT, work), SPLIT, work)


def found(trace: Trace, options: Options | None = None) -> Prefill:
    analysis = analyze(trace, options)
    return prefill(analysis, occupancy(analysis.spans, [0, 1]))


def bounds(prefill: Prefill) -> list[tuple[int, int]]:
    return [(prompt.first, prompt.last) for prompt in prefill.prompts]


def test_a_chunk_goes_on_where_the_one_before_it_left_off() -> None:
    assert bounds(found(of([*chunks(3000, 1000), *chunks(1500, 1000)]))) == [(0, 2), (3, 4)]


def test_prompts_may_take_turns() -> None:
    one, other = chunks(4000, 2000), chunks(3000, 1000)
    work = [one[0], other[0], one[1], other[1], other[2]]
    assert bounds(found(of(work))) == [(0, 2), (1, 4)]


def test_a_prompt_of_one_chunk_is_not_gone_on_with_by_the_next_one() -> None:
    assert bounds(found(of([Chunk(1000, 0), *chunks(2000, 1000)]))) == [(0, 0), (1, 2)]


def test_without_sizes_a_decode_step_ends_a_prompt() -> None:
    # GIVEN six microbatches of unknown size, the fourth of them a decode step
    trace = of(chunks(6000, 1000))
    spans = trace.spans.assign(tokens=-1, prefix=-1)
    spans["phase"] = np.where(spans["microbatch"] == 3, "decode", "prefill")
    trace = replace(trace, spans=table(SPANS, {name: spans[name] for name in SPANS.columns}))
    assert bounds(found(trace)) == [(0, 2), (4, 5)]
    # THEN the decode step is there: it took up the stages in between
    assert found(trace).work.decode.tolist() == [False, False, False, True, False, False]


def test_only_prompts_inside_the_window_count() -> None:
    # GIVEN three prompts, the pipeline empty in between
    work = [*chunks(2000, 1000), *chunks(2000, 1000, at=1_000_000), *chunks(2000, 1000, at=2_000_000)]
    trace = of(work)
    window = (ORIGIN_NS + 900_000, ORIGIN_NS + 2_050_000)
    prompts = found(trace, Options(window_ns=window, idle_gap_ns=100_000))
    assert bounds(prompts) == [(0, 1)]
    assert prompts.stretches == ((0, 2),)
    assert prompts.work.origin_ns + int(prompts.work.begin_ns[0, 0]) == ORIGIN_NS + 1_000_000


def test_overlapping_prompts_are_one_stretch() -> None:
    work = [*chunks(2000, 1000), *chunks(2000, 1000), *chunks(2000, 1000, at=5_000_000)]
    assert found(of(work)).stretches == ((0, 4), (4, 6))


def test_requests_tell_when_a_prompt_arrived_and_warm_ups_do_not_count() -> None:
    work = [*chunks(2000, 1000, at=1000), *chunks(2000, 1000, at=1_000_500)]
    trace = requested(of(work), [(0, 900_000, True), (1_000_000, 1_900_000, False)])
    (prompt,) = found(trace).prompts
    # THEN the second prompt is left: it arrived at 1,000,000, and the first compute began at 1,000
    assert (prompt.arrival_ns, prompt.ttft_ns) == (999_000, 900_000)
    assert prompt.first == 0


def test_a_prompt_that_a_stage_did_not_record_whole_is_none() -> None:
    trace = of([*chunks(2000, 1000), *chunks(2000, 1000)])
    lost = (trace.spans["stage"] == 1) & (trace.spans["microbatch"] == 0)
    spans = trace.spans[~lost]
    trace = replace(trace, spans=table(SPANS, {name: spans[name] for name in SPANS.columns}))
    assert bounds(found(trace)) == [(0, 1)]


def test_spans_inside_each_other_count_once_and_ends_stand_apart() -> None:
    # GIVEN a forward of 100 with an embedding of 10 inside it and sampling of 5 after it
    rows = [("forward", 0, 100), ("embed", 0, 10), ("sample", 100, 105)]
    columns = {
        "stage": [0] * 3, "device": [0] * 3, "step": [0] * 3, "microbatch": [0] * 3,
        "kind": [kind for kind, _, _ in rows], "phase": ["prefill"] * 3, "tokens": [8] * 3,
        "prefix": [0] * 3, "layer_begin": [0] * 3, "layer_end": [4] * 3, "peer": [-1] * 3,
        "bytes": [-1] * 3, "begin_ns": [ORIGIN_NS + begin for _, begin, _ in rows],
        "end_ns": [ORIGIN_NS + end for _, _, end in rows], "clock": ["host"] * 3,
    }  # fmt: skip
    work = occupancy(table(SPANS, columns), [0])
    assert (work.begin_ns.tolist(), work.end_ns.tolist()) == ([[0]], [[105]])
    assert (work.layers_ns.tolist(), work.ends_ns.tolist()) == ([[90]], [[15]])


def whole(work: Occupancy) -> Analysis:
    """An analysis whose window holds everything."""
    analysis = analyze(of(chunks(2000, 1000)))
    return replace(analysis, window_ns=(work.origin_ns, work.origin_ns + 1_000_000_000))


def test_decode_alone_is_no_prefill() -> None:
    work = occupied([[10] * 5, [10] * 5], decode=[True] * 5)
    with pytest.raises(CannotTellError, match="decode steps only"):
        prefill(whole(work), work)
