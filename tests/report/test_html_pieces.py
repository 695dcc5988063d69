"""Where a lane is cut, and what is known of each piece."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from bubblescope.analyzers.results import CULPRITS, STATES, Analysis
from bubblescope.report.html.pieces import Pieces, pieces
from bubblescope.trace.frames import SPANS, UNKNOWN, table
from tests.report.analyses import BEGIN_NS, MS, Stretches, analysis


def spanned(
    stages: Sequence[Stretches],
    spans: Sequence[tuple[int, str, int, int, int]],
    culprits: Sequence[tuple[int, int, str, int, int]] = (),
) -> Analysis:
    """spans: stage, kind, microbatch, begin and end in ms; culprits: the same as in the schema, in ms."""
    rows: list[dict[str, Any]] = [
        dict.fromkeys(SPANS.columns, UNKNOWN)
        | {"stage": stage, "device": stage, "kind": kind, "microbatch": batch, "phase": "prefill"}
        | {"begin_ns": BEGIN_NS + begin * MS, "end_ns": BEGIN_NS + end * MS, "clock": "device"}
        for stage, kind, batch, begin, end in spans
    ]
    blamed = [
        (stage, culprit, cause, BEGIN_NS + begin * MS, BEGIN_NS + end * MS)
        for stage, culprit, cause, begin, end in culprits
    ]
    return replace(
        analysis(stages),
        spans=table(SPANS, {name: [row[name] for row in rows] for name in SPANS.columns}),
        culprits=table(
            CULPRITS, {name: [row[at] for row in blamed] for at, name in enumerate(CULPRITS.columns)}
        ),
    )


def told(found: Pieces, lane: int) -> list[tuple[str, int, int, int]]:
    """State, begin, end (ms) and microbatch of the pieces of a lane."""
    rows = found.table[found.table["lane"] == lane]
    return [
        (STATES[row.state], row.begin_ns // MS, row.end_ns // MS, row.microbatch)
        for row in rows.itertuples(index=False)
    ]


def test_computing_without_a_pause_is_cut_where_the_next_microbatch_begins() -> None:
    built = spanned([[("compute", 20)]], [(0, "forward", 7, 0, 12), (0, "forward", 8, 12, 20)])
    assert told(pieces(built, [0]), 0) == [("compute", 0, 12, 7), ("compute", 12, 20, 8)]


def test_host_time_within_a_forward_belongs_to_its_microbatch_and_the_rest_to_none() -> None:
    built = spanned([[("compute", 5), ("host", 2), ("compute", 5), ("host", 3)]], [(0, "forward", 1, 0, 12)])
    assert told(pieces(built, [0]), 0) == [
        ("compute", 0, 5, 1),
        ("host", 5, 7, 1),
        ("compute", 7, 12, 1),
        ("host", 12, 15, UNKNOWN),
    ]


def test_waiting_for_a_microbatch_has_its_number_and_filling_has_none() -> None:
    built = spanned(
        [[("fill", 4), ("compute", 6), ("starved", 8), ("transfer", 2)]],
        [(0, "recv", 0, 0, 4), (0, "forward", 0, 4, 10), (0, "recv", 1, 10, 20)],
    )
    assert told(pieces(built, [0]), 0) == [
        ("fill", 0, 4, UNKNOWN),
        ("compute", 4, 10, 0),
        ("starved", 10, 18, 1),
        ("transfer", 18, 20, 1),
    ]


def test_a_wait_is_cut_where_its_culprit_changes() -> None:
    built = spanned(
        [[("compute", 20)], [("compute", 2), ("starved", 18)]],
        [],
        [(1, 0, "host", 2, 5), (1, 0, "compute", 5, 20)],
    )
    found = pieces(built, [0, 1])
    rows = found.table[found.table["lane"] == 1]
    blamed = [None if blame == UNKNOWN else found.blames[blame] for blame in rows["blame"]]
    assert told(found, 1) == [
        ("compute", 0, 2, UNKNOWN),
        ("starved", 2, 5, UNKNOWN),
        ("starved", 5, 20, UNKNOWN),
    ]
    assert blamed == [None, (1, 0, "host"), (1, 0, "compute")]


def test_lanes_stand_in_the_order_they_were_asked_for() -> None:
    built = analysis([[("compute", 10)], [("starved", 10)]])
    found = pieces(built, [1, 0])
    assert told(found, 0) == [("starved", 0, 10, UNKNOWN)]
    assert told(found, 1) == [("compute", 0, 10, UNKNOWN)]


def test_a_recording_without_devices_has_no_pieces() -> None:
    assert pieces(analysis([]), []).table.empty
