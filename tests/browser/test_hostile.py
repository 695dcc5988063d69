"""A recording whose names are written to take over the page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bubblescope.trace.model import Lost, Trace
from tests.browser.chromium import Browser
from tests.browser.conftest import written
from tests.pipelines.engine import Engine, prefill
from tests.pipelines.execution import play
from tests.pipelines.recording import recorded

NAMES = [
    "</script><script>window.taken = 1</script>",
    "<img src=x onerror='window.taken = 1'>",
    '"><svg onload=window.taken=1>',
    "<!--<script>",
    '<b>bold</b> <a href="javascript:window.taken=1">link</a>',
    "\u2028window.taken = 1\u2029//",
    "&lt;script&gt;window.taken = 1&lt;/script&gt;",
    "%3Cscript%3E ${window.taken = 1} {{window.taken}}",
]


def hostile(name: str) -> Trace:
    trace = recorded(play(Engine().program(prefill([30_000] * 4, [10_000] * 4))), requests=[(0, 150_000)])
    devices = tuple(replace(each, name=name, host=name) for each in trace.run.devices)
    run = replace(
        trace.run,
        devices=devices,
        engine=name,
        engine_version=name,
        command=(name,),
        lost=(Lost(name, name),),
    )
    return replace(trace, run=run, requests=trace.requests.assign(request=name))


@pytest.mark.parametrize("name", NAMES)
def test_names_are_shown_and_do_nothing(chromium: Browser, tmp_path: Path, name: str) -> None:
    chromium.resize(1280, 900)
    chromium.open(written(hostile(name), tmp_path / "page.html"))
    # WHEN everything that shows a name was shown
    box = chromium.box("#plot")
    chromium.hover(box["left"] + box["width"] / 2, box["top"] + box["height"] / 2)
    chromium.wait("!document.getElementById('tip').hidden")
    chromium.run("document.getElementById('jump').focus()")
    chromium.press("ArrowDown")
    chromium.wait("document.querySelector('#marks .band')")
    # THEN nothing of it has run or become a part of the page
    assert chromium.run("window.taken === undefined")
    assert chromium.run("document.querySelectorAll('img, a, svg svg, b b, iframe').length") == 0
    assert chromium.run("document.querySelectorAll('script').length") == 3
    assert chromium.console() == []
    # AND a person sees it as it is, but for what cannot be seen
    shown = name.replace("\u2028", r"\u2028").replace("\u2029", r"\u2029")[:30]
    assert shown in chromium.text("header")
