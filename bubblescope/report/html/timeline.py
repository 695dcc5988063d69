"""The timeline's place on the page: what to jump to, lanes, and a legend in words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import pandas as pd

from bubblescope.analyzers.results import Analysis
from bubblescope.report.escape import visible
from bubblescope.report.html.element import Html, element, joined
from bubblescope.report.html.shapes import swatch
from bubblescope.report.page import Page, Row
from bubblescope.report.quantities import duration
from bubblescope.report.requests import request_numbers, slowest
from bubblescope.report.waits import count

#: More lanes than this are no picture any more.
MOST_LANES = 64
_MOST_JUMPS = 300
#: Together the lanes are about so high, in pixels.
_HEIGHT, _THINNEST, _THICKEST = 460, 32, 84
#: From this height on a lane has room for more than two lines of text.
_ROOMY = 50

#: Left out where there is little room: what tells devices apart comes after it.
_VENDOR = re.compile(r"\b(NVIDIA|GeForce) ")

#: What each state means on the timeline.
_WORDS = {
    "compute": "runs kernels that are not communication",
    "starved": "waits for data that another stage has not begun to send",
    "blocked": "wants to send, and the other stage does not receive yet",
    "host": "has its input, but its own host has not launched the work",
    "transfer": "data is moving between the stages",
    "fill": "waits for the first microbatch: the pipeline fills",
    "drain": "is done, later stages are not: the pipeline drains",
    "idle": "no request is open",
}


@dataclass(frozen=True)
class Lane:
    """One line of the timeline: a stage, shown by its device with the most compute, or a device.

    about: what is at work there, the most telling first.
    """

    name: str
    about: tuple[str, ...]
    device: int


def lanes(analysis: Analysis, page: Page) -> tuple[Lane, ...]:
    """From top to bottom."""
    if analysis.stages:
        devices = [stage.devices[0] for stage in analysis.stages]
    else:
        devices = [each.device for each in analysis.devices]
    every = (
        Lane(row.label, (*layers(row), _VENDOR.sub("", row.device)), device)
        for row, device in zip(page.rows, devices, strict=True)
    )
    return tuple(islice(every, MOST_LANES))


def layers(row: Row) -> tuple[str, ...]:
    """How many layers a stage holds, if that is known."""
    return () if row.layers in ("", "?") else (count(int(row.layers), "layer"),)


def lane_height(lanes: int) -> int:
    """Pixels."""
    return min(max(_HEIGHT // max(lanes, 1), _THINNEST), _THICKEST)


def timeline_section(
    analysis: Analysis, page: Page, shown: Sequence[Lane], numbered: bool, finest_ns: int
) -> Html:
    """numbered: microbatches are known. finest_ns: what is shorter cannot be told apart however far one
    zooms; 0 for nothing."""
    height = lane_height(len(shown))
    names = (
        element("div", element("strong", lane.name), *_about(lane, height), title=", ".join(lane.about))
        for lane in shown
    )
    chart = element(
        "div",
        element("div", *names, class_="lanes"),
        element(
            "div",
            element("div", id="plot"),
            element("div", id="opens"),
            element("div", id="marks"),
            class_="drawing",
        ),
        id="chart",
        tabindex=0,
        role="group",
        aria_label="Timeline: stages from top to bottom, time from left to right",
        aria_describedby="keys",
        style=f"--lane:{height}px",
    )
    return element(
        "section",
        element("div", element("h2", "Timeline"), _tools(analysis, page), class_="head"),
        element("p", _READING.format(_NUMBERED if numbered else "")),
        chart,
        element("noscript", element("p", "The timeline needs JavaScript; all else is here.", class_="note")),
        element("p", _TROUBLE, id="trouble", class_="note", hidden=True),
        element("p", id="detail", class_="quiet"),
        *_limits(len(page.rows), len(analysis.requests), finest_ns),
        _legend(page, numbered),
        _KEYS,
        element("div", id="tip", role="status", hidden=True),
        id="timeline",
    )


def _about(lane: Lane, height: int) -> list[Html]:
    """As much as there is room for; the bars below tell it all."""
    return [element("span", line) for line in lane.about[: 1 if height < _ROOMY else None]]


_TROUBLE = (
    "The timeline cannot be drawn: this browser lacks something that those of 2024 and newer have. "
    "All else on this page is complete."
)
_READING = "Solid blocks are work{}. Hatched, dotted or pale is time in which a GPU computes nothing."
_NUMBERED = ": one colour and number per microbatch, the same on every stage"

_KEYS = element(
    "p",
    "Drag to zoom, Shift + drag to move, Ctrl + wheel to zoom at the pointer, double click for all. Keys: ",
    "arrows go from piece to piece, Enter zooms to it, + and − zoom, [ and ] move, 0 shows all.",
    id="keys",
    class_="quiet",
)


def _tools(analysis: Analysis, page: Page) -> Html:
    buttons = (
        ("earlier", "←", "Move to earlier"),
        ("later", "→", "Move to later"),
        ("out", "−", "Zoom out"),
        ("in", "+", "Zoom in"),
        ("all", "All", "Show the whole window"),
    )
    made = (
        element("button", sign, type="button", data_do=name, aria_label=words, title=words)
        for name, sign, words in buttons
    )
    chosen = element(
        "select", element("option", "the whole window", value=""), *_jumps(analysis, page), id="jump"
    )
    return element("div", element("label", "Show ", chosen), *made, class_="tools")


def _jumps(analysis: Analysis, page: Page) -> Iterator[Html]:
    """An option per request and per burst; the slowest requests where there are very many."""
    numbers = request_numbers(analysis)
    table = analysis.trace.requests
    measured = table[~table["warmup"]]
    for request in slowest(analysis, _MOST_JUMPS):
        number = numbers[request.request, request.arrival_ns]
        row = measured.iloc[number - 1]
        ends = [row["end_ns"], row["first_token_ns"]]
        end = next((int(each) for each in ends if not pd.isna(each)), analysis.window_ns[1])
        ttft = "no first token" if request.ttft_ns is None else f"TTFT {duration(request.ttft_ns)}"
        about = f" ({visible(request.request, 24)}), {ttft}"
        yield from _jump(analysis, "request", number, about, request.arrival_ns, end)
    bursts = analysis.bursts[["begin_ns", "end_ns"]].to_numpy().tolist()
    for number, (begin, end) in enumerate(bursts[:_MOST_JUMPS], start=1):
        yield from _jump(analysis, "burst", number, f", {duration(end - begin)}", begin, end)


def _jump(analysis: Analysis, kind: str, number: int, about: str, begin: int, end: int) -> Iterator[Html]:
    first, last = analysis.window_ns
    begin, end = max(begin, first) - first, min(end, last) - first
    if begin < end:
        name = f"{kind} {number}"
        yield element("option", name + about, value=name, data_begin=begin, data_end=end)


def _limits(lanes: int, requests: int, finest_ns: int) -> Iterator[Html]:
    if requests > _MOST_JUMPS:
        yield element("p", f"Of {requests} requests the {_MOST_JUMPS} slowest can be chosen.", class_="quiet")
    if lanes > MOST_LANES:
        yield element("p", f"The first {MOST_LANES} of {lanes} are drawn.", class_="quiet")
    if finest_ns:
        words = (
            f"This recording has more pieces than a page can hold: those shorter than {duration(finest_ns)} "
            "stay together however far you zoom. A part of it in full: "
        )
        code = element("code", "bubblescope report TRACE --window 1.2s:3.4s --html FILE")
        yield element("p", words, code, class_="note")


def _legend(page: Page, numbered: bool) -> Html:
    items = (
        element("li", _key(state, numbered), element("span", element("b", state), " ", _WORDS[state]))
        for state in page.states
    )
    return element("ul", *items, class_="legend")


def _key(state: str, numbered: bool) -> Html:
    if state != "compute" or not numbered:
        return swatch(state, state[0].upper())
    return joined(swatch(f"batch{number}", str(number)) for number in range(3))
