"""The HTML file as a whole: what it says, what it may do, how large it gets."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bubblescope.analyzers.results import (
    STATES,
    TIMELINE,
    Analysis,
    DeviceStates,
    Recommendation,
    RequestBreakdown,
)
from bubblescope.report.html.document import to_html
from bubblescope.report.page import page
from bubblescope.trace.frames import table
from bubblescope.trace.model import Device, Lost, Run
from tests.report.analyses import BEGIN_NS, MS, analysis, requested, without_devices_work
from tests.report.test_html_element import Read

HOSTILE = (
    "</script><script>alert(1)</script><!-- <b onmouseover='x'>&amp;\u2028\" <a href=javascript:alert(2)>"
)
LARGEST = 6_000_000


def written(built: Analysis, source: str = "trace.json") -> str:
    return to_html(built, page(built, source)).decode()


def uneven() -> Analysis:
    return analysis(
        [[("compute", 90), ("drain", 10)], [("fill", 10), ("starved", 60), ("compute", 30)]],
        blame=[(1, 0, "compute", 60)],
        layers=[27, 9],
        concurrency=[(0, 0), (1, 80), (2, 20)],
    )


def scripts(source: str) -> list[str]:
    return re.findall(r"<script>(.*?)</script>", source, re.DOTALL)


def test_a_person_reads_the_verdict_the_states_and_the_blame_without_any_script() -> None:
    text = Read(written(uneven())).text
    assert "Stage 1 (NVIDIA H200, 9 layers) waits" in text
    assert "Stage 1 waited for stage 0 to compute: 60.0" in text
    assert "starved waits for data that another stage has not begun to send" in text
    assert "27 layers, NVIDIA H200" in text


def test_a_cell_of_several_causes_gives_each_its_own_time() -> None:
    # GIVEN 50 ms for compute and 10 for the host of the same stage; 0.1 ms more would be told on hovering
    mixed = replace(uneven(), blame=analysis([], blame=[(1, 0, "compute", 50), (1, 0, "host", 10)]).blame)
    source = written(mixed)
    assert "<span>60.0 ms</span><span>compute 50.0 ms</span><span>host 10.0 ms</span>" in source
    assert "<span>60.0 ms</span><span>compute</span>" in written(uneven())


def test_the_blame_matrix_says_who_waited_for_whom() -> None:
    (row,) = re.findall(r'<tr><th scope="row">stage 1</th>(.*?)</tr>', written(uneven()))
    # 60 of the 100 ms in which a request was open
    assert Read(row).text == "60 %60.0 mscompute"
    assert "--heat:60%" in row


def test_a_bar_is_divided_as_the_stage_was() -> None:
    assert bars(written(uneven()), "stage 1") == [("compute", 30.0), ("starved", 60.0), ("fill", 10.0)]


def bars(source: str, name: str) -> list[tuple[str, float]]:
    """Shade and percent of the parts of the bar that is called so."""
    bar = next(each for each in re.findall(r"<svg class=\"bar\".*?</svg>", source) if f'"{name}' in each)
    parts = re.findall(r'width="([\d.]+)%" height="100%" class="is-(\w+)"', bar)
    return [(shade, float(width)) for width, shade in parts]


def test_the_split_and_the_time_are_shown_before_and_after_the_advice() -> None:
    advice = Recommendation(
        (24, 12), "24,12 saves", 100 * MS, 60 * MS, (50 * MS, 65 * MS), words="VLLM_PP_LAYER_PARTITION=24,12"
    )
    source = written(replace(uneven(), recommendation=advice))
    assert bars(source, "layers now") == [("batch0", 75.0), ("batch1", 25.0)]
    assert bars(source, "layers advised") == [("batch0", 66.667), ("batch1", 33.333)]
    assert bars(source, "100 ms") == [("compute", 100.0)]
    assert bars(source, "60.0 ms, between 50.0 ms and 65.0 ms") == [("compute", 50.0), ("step1", 15.0)]
    assert "What to change: 24,12 saves VLLM_PP_LAYER_PARTITION=24,12" in Read(source).text.replace(
        "\u00a0", " "
    )


def test_without_advice_its_reason_is_told_and_nothing_is_drawn() -> None:
    source = written(replace(uneven(), recommendation=Recommendation(None, "balanced within error")))
    assert "What to change: Balanced within error" in Read(source).text
    assert "layers advised" not in source


def test_the_drawing_library_is_there_once_and_only_our_scripts_may_run() -> None:
    source = written(uneven())
    assert source.count("plotly.js (basic - minified)") == 1
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', source)
    allowed = set(re.findall("&#x27;sha256-(.*?)&#x27;", policy))
    hashes = {base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in scripts(source)}
    assert len(hashes) == 2
    assert allowed == hashes
    assert policy.startswith("default-src &#x27;none&#x27;")
    assert "unsafe-eval" not in policy


def test_nothing_is_to_be_fetched() -> None:
    for tag, attributes in Read(written(uneven())).tags:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base"}
        assert not {"src", "href", "action", "srcdoc"} & set(attributes)


def hostile() -> Analysis:
    devices = [Device(rank=n, name=HOSTILE, host=HOSTILE, stage=n) for n in range(2)]
    built = requested(
        analysis(
            [[("compute", 90), ("drain", 10)], [("fill", 10), ("starved", 60), ("compute", 30)]],
            blame=[(1, 0, "compute", 60)],
            devices=devices,
            run=Run(engine=HOSTILE, engine_version=HOSTILE),
            lost=(Lost(HOSTILE, HOSTILE, 1),),
        ),
        [(HOSTILE, 0, 90, 100, False)],
    )
    breakdown = {"queue": 30 * MS, "compute_stage_0": 60 * MS}
    return replace(built, requests=(RequestBreakdown(HOSTILE, BEGIN_NS, 90 * MS, 100, breakdown),))


def test_a_hostile_recording_adds_no_tag_and_no_attribute() -> None:
    def shape(source: str) -> list[tuple[str, list[str]]]:
        return [(tag, list(attributes)) for tag, attributes in Read(source).tags]

    harmless = replace_names(hostile())
    assert shape(written(hostile(), HOSTILE)) == shape(written(harmless, "x"))
    assert len(scripts(written(hostile(), HOSTILE))) == 2


def replace_names(built: Analysis) -> Analysis:
    """The same with names of one letter."""
    devices = tuple(replace(device, name="x", host="x") for device in built.trace.run.devices)
    requests = built.trace.requests.assign(request="x")
    run = replace(built.trace.run, devices=devices, engine="x", engine_version="x")
    return replace(
        built,
        trace=replace(built.trace, run=run, requests=requests),
        requests=tuple(replace(each, request="x") for each in built.requests),
        lost=(Lost("x", "x", 1),),
    )


def test_names_that_cannot_be_written_do_not_stop_the_report() -> None:
    assert "bad" in written(uneven(), "bad\udcff\x00")


def test_a_request_can_be_jumped_to() -> None:
    built = requested(uneven(), [("warm", 0, 5, 8, True), ("abc", 10, 40, 100, False)])
    built = replace(
        built, requests=(RequestBreakdown("abc", BEGIN_NS + 10 * MS, 30 * MS, 100, {"queue": 30 * MS}),)
    )
    options = [attributes for tag, attributes in Read(written(built)).tags if tag == "option"]
    # It ends 10 ms after its first token.
    assert {"value": "request 1", "data-begin": str(10 * MS), "data-end": str(50 * MS)} in options


def test_saving_states_has_a_shade_and_a_key_of_its_own() -> None:
    built = requested(uneven(), [("abc", 10, 40, 100, False)])
    parts = {"state": 20 * MS, "host": 10 * MS}
    built = replace(built, requests=(RequestBreakdown("abc", BEGIN_NS + 10 * MS, 30 * MS, 100, parts),))
    text = Read(written(built)).text
    assert "state: KV cache was saved to host memory or restored" in text
    assert "state 67 %" in text


@pytest.mark.parametrize(
    ("built", "said"),
    [
        (without_devices_work([Device(rank=0)]), "No device activity in this recording"),
        (replace(uneven(), stages=(), pipeline=False), "No pipeline in this recording"),
        (analysis([]), "No device activity in this recording"),
    ],
)
def test_what_cannot_be_judged_is_said(built: Analysis, said: str) -> None:
    assert said in Read(written(built)).text


def test_many_lanes_are_cut_off_and_it_is_said() -> None:
    source = written(analysis([[("compute", 10)]] * 80))
    assert "The first 64 of 80 are drawn." in source


def test_the_largest_recording_makes_a_file_of_at_most_6_mb() -> None:
    # GIVEN 64 devices and a million stretches that nothing can be saved on
    random = np.random.default_rng(1)
    count, lanes = 1_000_000, 64
    lengths = random.lognormal(10, 3, count).astype(np.int64) + 1
    ends = np.cumsum(lengths.reshape(lanes, -1), axis=1)
    window = int(ends.max())
    columns: dict[str, Any] = {
        "device": np.repeat(np.arange(lanes), count // lanes),
        "state": np.array(STATES)[random.integers(0, len(STATES), count)],
        "begin_ns": (ends - lengths.reshape(lanes, -1)).ravel() + BEGIN_NS,
        "end_ns": ends.ravel() + BEGIN_NS,
    }
    devices = [Device(rank=n, name="x" * 1000, stage=n) for n in range(lanes)]
    built = replace(
        analysis([[("compute", 10)]] * lanes, devices=devices, layers=[1] * lanes),
        window_ns=(BEGIN_NS, BEGIN_NS + window),
        timeline=table(TIMELINE, columns),
        devices=tuple(DeviceStates(n, n, dict.fromkeys(STATES, window // 8)) for n in range(lanes)),
    )
    source = written(built)
    assert len(source) <= LARGEST
    assert "This recording has more pieces than a page can hold" in source
