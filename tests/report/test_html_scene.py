"""What the page's script gets."""

from __future__ import annotations

import base64
import gzip
import json
import re
from dataclasses import replace
from itertools import accumulate
from typing import Any

from bubblescope.analyzers.results import STATES
from bubblescope.report.html.detail import levels
from bubblescope.report.html.pieces import pieces
from bubblescope.report.html.scene import packed, scene
from bubblescope.report.html.timeline import lanes
from bubblescope.report.page import page
from tests.report.analyses import MS, analysis
from tests.report.test_html_pieces import spanned

HOSTILE = "</script><!-- <b>&amp; \u2028'\""


def unpacked(text: str) -> Any:
    return json.loads(gzip.decompress(base64.b64decode(text)))


def drawn(built: Any, offset_ns: int = 0) -> Any:
    shown = lanes(built, page(built, "x"))
    cut = pieces(built, [lane.device for lane in shown])
    detail = levels(cut.table, built.window_ns[1] - built.window_ns[0])
    return json.loads(scene(built, shown, detail, cut.blames, offset_ns))


def test_nothing_that_is_packed_can_be_taken_for_markup() -> None:
    text = packed(json.dumps(HOSTILE).encode())
    assert re.fullmatch("[A-Za-z0-9+/=]+", text)
    assert unpacked(text) == HOSTILE


def test_equal_contents_give_equal_files() -> None:
    assert packed(b"x" * 100) == packed(b"x" * 100)


def test_the_columns_of_a_level_give_every_piece_back() -> None:
    built = spanned(
        [[("compute", 20), ("idle", 5)], [("fill", 15), ("compute", 10)]],
        [(0, "forward", 3, 0, 20), (1, "forward", 3, 15, 25)],
    )
    found = drawn(built, offset_ns=7)
    level = found["levels"][0]
    begins = list(accumulate(level["step"]))
    rows = list(zip(level["state"], begins, level["length"], level["rest"], level["batch"], strict=True))
    assert [
        (STATES[state], begin // MS, length // MS, rest, batch) for state, begin, length, rest, batch in rows
    ] == [
        ("compute", 0, 20, 0, 0),
        ("idle", 20, 5, 0, -1),
        ("fill", 0, 15, 0, -1),
        ("compute", 15, 10, 0, 0),
    ]
    assert level["rows"] == [2, 2]
    assert found["batches"] == [["3", "prefill", -1, -1]]
    assert (found["window"], found["offset"]) == (25 * MS, 7)


def test_a_culprit_is_told_in_words_with_its_stage_if_it_is_another() -> None:
    built = spanned(
        [[("compute", 20)], [("starved", 15), ("host", 5)]],
        [],
        [(1, 0, "compute", 0, 15), (1, 1, "host", 15, 20)],
    )
    assert drawn(built)["blames"] == [
        ["waited for stage 0 to compute", 0],
        ["had its input, and its own host had not launched the work", None],
    ]


def test_microbatch_numbers_of_any_size_keep_their_digits() -> None:
    # A browser's numbers are exact to 2^53 only.
    built = spanned([[("compute", 20)]], [(0, "forward", 2**62 + 1, 0, 20)])
    assert drawn(built)["batches"] == [["4611686018427387905", "prefill", -1, -1]]


def test_a_lane_without_work_has_no_rows() -> None:
    built = analysis([[("compute", 20)], [("compute", 20)]])
    assert drawn(built)["levels"][0]["rows"] == [1, 1]


def test_of_each_microbatch_in_a_lane_its_layers_are_told_and_which_is_the_slowest() -> None:
    built = spanned(
        [[("compute", 20)], [("fill", 10), ("compute", 10)]],
        [
            (0, "forward", 3, 0, 10), (0, "layer", 3, 1, 3), (0, "layer", 3, 3, 8),
            (0, "forward", 4, 10, 20), (1, "forward", 3, 10, 20), (1, "attention", 3, 12, 15),
        ],
    )  # fmt: skip
    numbered = built.spans.assign(layer_begin=[-1, 0, 1, -1, -1, 2])
    # Two layers of 2 and 5 ms; the attention of one.
    assert drawn(replace(built, spans=numbered))["layers"] == {
        "0,0": [2, 7 * MS, 1, 5 * MS, 0],
        "1,0": [1, 3 * MS, 2, 3 * MS, 1],
    }
