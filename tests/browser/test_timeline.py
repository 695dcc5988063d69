"""What a person does with the timeline, and sees."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.chromium import Browser

#: Where stage 0 and 1 are, as shares of the height of the drawing; the requests' strip is above them.
STAGE_0, STAGE_1 = 0.28, 0.65


@pytest.fixture
def page(chromium: Browser, vllm: Path) -> Browser:
    chromium.resize(1280, 900)
    chromium.open(vllm)
    return chromium


def point(page: Browser, across: float, down: float) -> tuple[float, float]:
    """A point of the drawing, as shares of its width and height."""
    box = page.box("#plot")
    return box["left"] + across * box["width"], box["top"] + down * box["height"]


def axis(page: Browser) -> list[float]:
    """The times on the axis, in ms."""
    marks = page.run("Array.from(document.querySelectorAll('.xtick text'), (mark) => mark.textContent)")
    assert all(mark.endswith(" ms") for mark in marks)
    return [float(mark.removesuffix(" ms").replace(",", "")) for mark in marks]


def words(page: Browser) -> list[str]:
    """What is written on the timeline's pieces."""
    selector = ".tracewords text, .tracenumbers text"
    return list(page.run(f"Array.from(document.querySelectorAll('{selector}'), (each) => each.textContent)"))


def test_the_page_opens_quietly_and_asks_for_nothing(page: Browser, vllm: Path) -> None:
    page.requests()
    page.open(vllm)
    assert page.console() == []
    fetched = [each for each in page.requests() if not each.startswith(("data:", "chrome:"))]
    assert fetched == [vllm.as_uri()]


def test_a_person_sees_who_waits_for_whom(page: Browser) -> None:
    assert "Stage 1 (NVIDIA H200, 9 layers) waits" in page.text("main")
    assert page.text(".lanes").split("\n") == ["stage 0", "27 layers", "H200", "stage 1", "9 layers", "H200"]
    assert axis(page)[0] == 0
    assert {"0", "7", "S", "idle"} <= set(words(page))


def test_hovering_tells_state_culprit_microbatch_and_times(page: Browser) -> None:
    # GIVEN a wait of stage 1 in the middle of the first prompt
    page.hover(*point(page, 0.27, STAGE_1))
    page.wait("!document.getElementById('tip').hidden")
    told = page.text("#tip")
    assert told.startswith("stage 1: starved, ")
    assert "waited for stage 0 to compute" in told
    assert "microbatch 5, prefill: 4,096 tokens after 20,480 in the cache" in told
    # THEN the same microbatch is marked on the stage that is waited for
    assert page.run("document.querySelectorAll('#marks .batch').length") >= 1
    page.hover(5, 5)
    page.wait("document.getElementById('tip').hidden")


def test_hovering_tells_what_the_layers_took_and_which_is_the_slowest(
    chromium: Browser, layers: Path
) -> None:
    chromium.resize(1280, 900)
    chromium.open(layers)
    chromium.hover(*point(chromium, 0.2, STAGE_0))
    chromium.wait("!document.getElementById('tip').hidden")
    told = chromium.text("#tip").split("\n")
    assert told[:3] == [
        "stage 0: compute, 80.5 ms",
        "microbatch 13, prefill: 256 tokens after 768 in the cache",
        "6 layers: 80.1 ms, the slowest is layer 5 with 24.2 ms",
    ]


def test_dragging_zooms_in_and_a_double_click_shows_all_again(page: Browser) -> None:
    whole = axis(page)
    page.drag(point(page, 0.2, STAGE_0), point(page, 0.3, STAGE_0))
    page.wait("document.querySelectorAll('.xtick').length && !document.querySelector('.zoombox')")
    page.wait(f"document.querySelectorAll('.xtick text')[0].textContent !== '{whole[0]:.0f} ms'")
    zoomed = axis(page)
    # A tenth of 2302 ms, from about 0.2 of it
    assert 400 < zoomed[0] < zoomed[-1] < 720
    page.click("[data-do=all]")
    page.wait("document.querySelectorAll('.xtick text')[0].textContent === '0 ms'")
    assert axis(page) == whole


def test_zooming_in_shows_single_kernels(page: Browser) -> None:
    assert "drawn together" in page.text("#detail")
    for _ in range(7):
        page.click("[data-do=in]")
    page.wait("document.getElementById('detail').textContent.startsWith('Every piece')")
    times = axis(page)
    # 2302 ms halved seven times is 18 ms
    assert times[-1] - times[0] < 18.1


def test_buttons_move_and_the_ends_stop_them(page: Browser) -> None:
    page.click("[data-do=in]")
    page.click("[data-do=earlier]")
    page.click("[data-do=earlier]")
    page.wait("document.querySelectorAll('.xtick text')[0].textContent === '0 ms'")
    assert axis(page)[-1] < 1151


def test_choosing_a_burst_zooms_to_it_and_marks_it(page: Browser) -> None:
    page.run("document.getElementById('jump').focus()")
    page.press("ArrowDown", "ArrowDown")
    page.wait("document.querySelector('#marks .band') && document.getElementById('jump').value === 'burst 2'")
    # Burst 2 is from 1241 to 2302 ms.
    times = axis(page)
    assert times[0] >= 1180
    assert times[-1] <= 2302
    band, drawing = page.box("#marks .band"), page.box("#plot")
    assert band["left"] > drawing["left"] + 0.02 * drawing["width"]


def test_the_strip_above_the_lanes_goes_to_a_burst_too(page: Browser) -> None:
    page.click("#opens .open:nth-child(2)")
    page.wait("document.querySelector('#marks .band')")
    assert page.run("document.getElementById('jump').value") == "burst 2"


def test_the_keyboard_goes_from_piece_to_piece(page: Browser) -> None:
    page.run("document.getElementById('chart').focus()")
    page.press("ArrowRight", "ArrowDown")
    page.wait("!document.getElementById('tip').hidden")
    assert page.text("#tip").startswith("stage 1: fill")
    page.press("ArrowRight")
    page.wait("document.getElementById('tip').innerText.startsWith('stage 1: starved')")
    before = axis(page)
    page.press("Enter")
    page.wait("document.querySelectorAll('.xtick').length")
    page.wait(f"document.querySelectorAll('.xtick text')[1].textContent !== '{before[1]:.0f} ms'")
    page.press("Escape")
    page.wait("document.getElementById('tip').hidden")


def test_every_control_can_be_reached_by_the_tab_key(page: Browser) -> None:
    reached = []
    for _ in range(12):
        page.press("Tab")
        reached.append(page.run("document.activeElement.id || document.activeElement.dataset.do"))
    assert reached[:8] == ["theme", "jump", "earlier", "later", "out", "in", "all", "chart"]


def test_colours_follow_the_system_and_the_button(chromium: Browser, vllm: Path) -> None:
    chromium.resize(1280, 900, dark=True)
    chromium.open(vllm)

    def brightness() -> float:
        colour = chromium.run("getComputedStyle(document.body).backgroundColor")
        return sum(map(int, colour.removeprefix("rgb(").removesuffix(")").split(","))) / 3

    assert brightness() < 60
    assert chromium.text("#theme") == "Light colours"
    chromium.click("#theme")
    assert brightness() > 200
    assert chromium.text("#theme") == "Dark colours"


def test_an_old_browser_shows_all_but_the_timeline_and_says_why(chromium: Browser, vllm: Path) -> None:
    script = {"source": "delete window.DecompressionStream"}
    added = chromium.devtools("Page.addScriptToEvaluateOnNewDocument", script)
    try:
        chromium.devtools("Page.navigate", {"url": vllm.as_uri()})
        chromium.wait("document.getElementById('trouble') && !document.getElementById('trouble').hidden")
        assert "cannot be drawn" in chromium.text("#trouble")
        assert "Stage 1 waited for stage 0 to compute" in chromium.text("main")
    finally:
        chromium.devtools("Page.removeScriptToEvaluateOnNewDocument", added)
        chromium.console()
