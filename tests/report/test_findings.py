"""Which findings are said, in what order, and how loud."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bubblescope.analyzers.results import Analysis, Finding, Recommendation
from bubblescope.report.advice import advice
from bubblescope.report.findings import cure_by_flag, findings
from bubblescope.report.verdict import verdict
from tests.report.analyses import MS, analysis

DRAIN = Finding("graph-reuse-drain", 50 * MS, None, "graphs are reused", "LLAMA_GRAPH_REUSE_DISABLE=1", 0.25)
EMBEDDING = Finding("cpu-embedding", 4 * MS, 0, "the CPU embeds")
COPIES = Finding("input-copies", 300_000, None, "inputs are copied")


def found(*each: Finding, **changes: Any) -> Analysis:
    """A prompt takes 200 ms."""
    advice = Recommendation(None, "balanced within error", makespan_ns=200 * MS)
    stages = [[("compute", 100)], [("compute", 100)]]
    return analysis(stages, findings=each, recommendation=advice, **changes)


def lines(built: Analysis) -> list[tuple[str, str | None]]:
    section = findings(built)
    return [] if section is None else [(line.text, line.code) for line in section.lines]


def test_the_largest_stands_first_with_what_there_is_to_gain() -> None:
    assert lines(found(EMBEDDING, DRAIN)) == [
        ("Graphs are reused (costs a prompt 50.0 ms, 25 % to gain)", "LLAMA_GRAPH_REUSE_DISABLE=1"),
        ("The CPU embeds (costs a prompt 4.00 ms)", None),
    ]


def test_what_costs_less_than_a_hundredth_of_a_prompt_shares_one_line() -> None:
    assert lines(found(EMBEDDING, COPIES))[1:] == [
        ("1 costs less than 1.0 % of a prompt: input-copies 300 µs", None)
    ]


def test_the_split_is_left_to_the_advice() -> None:
    assert findings(found(Finding("layer-split", 90 * MS, None, "5,3 would save", "-ts 5/4", 0.3))) is None


def test_the_verdict_begins_with_what_a_flag_gains() -> None:
    told = verdict(found(EMBEDDING, DRAIN))
    assert told.tone == "bad"
    assert told.text == (
        "Graphs are reused: LLAMA_GRAPH_REUSE_DISABLE=1, 25 % of a prompt's prefill to gain."
    )


def test_what_to_change_names_the_flag_that_gains_most() -> None:
    section = advice(found(EMBEDDING, DRAIN))
    assert section is not None
    # Before the split, of which nothing is advised
    assert [(line.text, line.code) for line in section.lines] == [
        ("25 % of a prompt's prefill to gain", "LLAMA_GRAPH_REUSE_DISABLE=1"),
        ("Balanced within error", None),
    ]
    without = advice(found(EMBEDDING))
    assert without is not None and all(line.code is None for line in without.lines)


def test_where_no_gain_is_known_the_verdict_names_what_costs_most() -> None:
    unknown = Finding("kv-cache-on-cpu", 80 * MS, None, "the KV cache is on the CPU", "remove -nkvo")
    told = cure_by_flag(found(unknown, EMBEDDING))
    assert told == "The KV cache is on the CPU: remove -nkvo, it costs a prompt 80.0 ms."


def test_gaps_between_kernels_are_counted_over_the_window() -> None:
    # GIVEN a window of 100 ms, of which kernels were launched too slowly in 6
    gaps = Finding("launch-bound", 6 * MS, 1, "kernels come late", "leave --enforce-eager out")
    assert lines(found(gaps)) == [("Kernels come late (costs 6.00 ms in all)", "leave --enforce-eager out")]
    assert cure_by_flag(found(gaps)) == (
        "Kernels come late: leave --enforce-eager out, it costs 6.00 ms in all."
    )
    # AND 4 of 100 are too little for the verdict
    assert cure_by_flag(found(replace(gaps, ns=4 * MS))) is None


def test_a_flag_that_gains_little_is_not_in_the_verdict() -> None:
    small = Finding("small-ubatch", 8 * MS, None, "ubatches are small", "-ub 512", 0.04)
    assert cure_by_flag(found(small, EMBEDDING)) is None
    assert verdict(found(small)).tone == "good"


def test_what_no_flag_cures_is_not_in_the_verdict() -> None:
    assert cure_by_flag(found(Finding("input-copies", 90 * MS, None, "inputs are copied"))) is None
