"""The page at several sizes, with few and many stages, short and long recordings, and on paper."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bubblescope.analyzers.analysis import analyze
from bubblescope.analyzers.results import Analysis
from bubblescope.report.html.detail import MOST_DRAWN
from bubblescope.report.html.document import to_html
from bubblescope.report.page import page
from bubblescope.trace.model import Trace
from tests.browser.chromium import Browser
from tests.browser.conftest import written
from tests.pipelines.engine import Engine, Step
from tests.pipelines.execution import play
from tests.pipelines.recording import recorded

MS = 1_000_000
NAMES = ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "NVIDIA GeForce RTX 5090", "NVIDIA H200")

#: Elements that reach beyond the window, or lie over another one that should stand beside them.
CUT_OFF = """Array.from(document.querySelectorAll('main *, header *')).filter((each) => {
    const [box, room] = [each.getBoundingClientRect(), document.documentElement.clientWidth];
    return box.width && !each.closest('svg, .wide, select') && box.right > room + 1;
}).map((each) => each.outerHTML.slice(0, 200))"""
BESIDE = ".lanes > div, .row > *, .tools > *, section"
OVERLAPPING = f"""Array.from(document.querySelectorAll('{BESIDE}')).filter((each) => {{
    const next = each.nextElementSibling;
    if (!next) return false;
    const [one, two] = [each.getBoundingClientRect(), next.getBoundingClientRect()];
    return one.right > two.left + 1 && one.bottom > two.top + 1;
}}).map((each) => each.outerHTML.slice(0, 200))"""
HOLDERS = ".lanes > div, .name, .figure, .tools button, #theme"
TEXT_CUT_OFF = f"""Array.from(document.querySelectorAll('{HOLDERS}')).filter((each) =>
    each.scrollHeight > each.clientHeight + 2 || each.scrollWidth > each.clientWidth + 2
).map((each) => each.outerHTML.slice(0, 200))"""


def pipeline(stages: int) -> Trace:
    """A prompt of eight chunks and two decode steps on so many stages of different speed."""
    cost = [(8 + 5 * (stage % 3)) * MS for stage in range(stages)]
    steps = [Step(tuple(cost), samples=chunk == 7) for chunk in range(8)]
    steps += [Step(tuple(each // 10 for each in cost), phase="decode", samples=True)] * 2
    execution = play(Engine(link=MS // 2, host=(MS // 4,) * stages).program(steps))
    ends = [work.end for work in execution.works]
    trace = recorded(execution, phases=True, requests=[(0, max(ends))])
    devices = (replace(each, name=NAMES[n % 3]) for n, each in enumerate(trace.run.devices))
    return replace(trace, run=replace(trace.run, devices=tuple(devices)))


def repeated(analysis: Analysis, times: int, pause_ns: int) -> Analysis:
    """As if the same had happened so many times, with pauses without requests."""
    length = analysis.window_ns[1] - analysis.window_ns[0] + pause_ns
    devices = sorted(set(analysis.timeline["device"]))
    pause = pd.DataFrame({"device": devices, "state": "idle", "begin_ns": analysis.window_ns[1]})
    timeline = pd.concat([analysis.timeline, pause.assign(end_ns=pause["begin_ns"] + pause_ns)])

    def again(frame: pd.DataFrame, order: list[str]) -> pd.DataFrame:
        number = np.repeat(np.arange(times), len(frame))
        longer = pd.concat([frame] * times, ignore_index=True)
        for column in {"begin_ns", "end_ns"} & set(frame.columns):
            longer[column] += number * length
        if "microbatch" in frame:
            longer["microbatch"] += number * 1000
        return longer.sort_values(order, kind="stable", ignore_index=True)

    timeline["state"] = pd.Categorical(timeline["state"], analysis.timeline["state"].cat.categories)
    return replace(
        analysis,
        window_ns=(analysis.window_ns[0], analysis.window_ns[0] + times * length),
        timeline=again(timeline, ["device", "begin_ns"]),
        spans=again(analysis.spans, ["device", "begin_ns"]),
        culprits=again(analysis.culprits, ["waiting_stage", "begin_ns"]),
        bursts=again(analysis.bursts, ["begin_ns"]),
    )


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory, vllm: Path) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("layout")
    made = {f"{stages} stages": written(pipeline(stages), folder / f"{stages}.html") for stages in (2, 7, 16)}
    hour = repeated(analyze(pipeline(7)), 3_000, 1_000 * MS)
    assert hour.window_ns[1] - hour.window_ns[0] > 3_600_000 * MS
    made["an hour"] = folder / "hour.html"
    made["an hour"].write_bytes(to_html(hour, page(hour, "hour")))
    return {**made, "vLLM": vllm}


@pytest.mark.parametrize("name", ["2 stages", "7 stages", "16 stages", "an hour", "vLLM"])
@pytest.mark.parametrize("width", [1280, 700])
def test_nothing_is_cut_off_or_lies_over_something_else(
    chromium: Browser, pages: dict[str, Path], name: str, width: int
) -> None:
    chromium.resize(width, 900)
    chromium.open(pages[name])
    assert chromium.run("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert chromium.run(CUT_OFF) == []
    assert chromium.run(OVERLAPPING) == []
    assert chromium.run(TEXT_CUT_OFF) == []
    assert chromium.console() == []


def test_the_timeline_fits_a_window_that_gets_narrower(chromium: Browser, pages: dict[str, Path]) -> None:
    chromium.resize(1280, 900)
    chromium.open(pages["7 stages"])
    chromium.resize(700, 900)
    chromium.wait("document.querySelector('.main-svg').getBoundingClientRect().right < 700")


def test_an_hour_is_drawn_at_a_level_of_detail_and_says_so(chromium: Browser, pages: dict[str, Path]) -> None:
    chromium.resize(1280, 900)
    chromium.open(pages["an hour"])
    assert "This recording has more pieces than a page can hold" in chromium.text("#timeline")
    assert "drawn together" in chromium.text("#detail")
    drawn = (
        "document.getElementById('plot').data.filter((each) => each.fill).map((each) => each.x.length / 5)"
    )
    assert 0 < sum(chromium.run(drawn)) <= MOST_DRAWN
    assert pages["an hour"].stat().st_size <= 6_000_000


def test_on_paper_it_is_light_and_as_wide_as_a_page(chromium: Browser, pages: dict[str, Path]) -> None:
    chromium.resize(1280, 900, dark=True)
    chromium.open(pages["7 stages"])
    chromium.devtools("Emulation.setEmulatedMedia", {"media": "print"})
    assert chromium.run("getComputedStyle(document.documentElement).colorScheme") == "light"
    assert chromium.run("getComputedStyle(document.querySelector('.tools')).display") == "none"
    chromium.devtools("Emulation.setEmulatedMedia", {"media": ""})
    printed = base64.b64decode(chromium.devtools("Page.printToPDF", {"printBackground": True})["data"])
    assert printed.startswith(b"%PDF")
    assert chromium.run("document.querySelector('.main-svg').getBoundingClientRect().width") > 900
