"""The bars beside the timeline: states per stage, stages at once, requests."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bubblescope.analyzers.results import Analysis, RequestBreakdown
from bubblescope.report.html.element import Html, element, joined
from bubblescope.report.html.shapes import Part, bar, labelled, swatch
from bubblescope.report.html.timeline import layers
from bubblescope.report.page import Page, Row
from bubblescope.report.quantities import duration, share
from bubblescope.report.requests import request_numbers, slowest
from bubblescope.report.waits import count

_MOST_REQUESTS = 10

_COMPUTE = re.compile(r"compute_stage_([0-9]+)")
#: The parts of a TTFT: their shade and what they mean.
_PARTS = {
    "queue": ("fill", "queue: other requests came first"),
    "host": ("host", "host: the work was not launched yet"),
    "state": ("blocked", "state: KV cache was saved to host memory or restored"),
    "compute": ("compute", "compute, with the number of the stage"),
    "transfer": ("transfer", "transfer between stages"),
    "bubble": ("starved", "bubble: waited in the pipeline for none of these"),
    "outside": ("idle", "outside the devices: tokenizing, HTTP"),
}


def state_bars(page: Page, rows: Sequence[Row]) -> Html:
    """A bar per stage or rank: how its window divides into states."""
    return element("div", *(_states(page, row) for row in rows), class_="bars")


def _states(page: Page, row: Row) -> Html:
    window = max(page.window_ns[1] - page.window_ns[0], 1)
    parts = []
    for state in page.states:
        ns = row.states_ns.get(state, 0)
        part = page.figures(row, state)[1]
        labels = (f"{state} {part}", part, state[0].upper())
        parts.append(Part(state, ns / window, labels, f"{state}: {duration(ns)}, {part}"))
    said = "; ".join(part.title for part in parts if part.share > 0)
    drawn = bar(parts, f"{row.label}: {said}") if row.states_ns else _quiet("no work of it recorded")
    name = joined([element("strong", row.label), element("span", ", ".join((*layers(row), row.device)))])
    return labelled(name, drawn, f"bubble {row.bubble}" if row.bubble else "")


def concurrency_bar(analysis: Analysis) -> Html | None:
    """For which share of the window how many stages computed at once."""
    rows = [(int(row["stages"]), int(row["ns"])) for row in analysis.concurrency.to_dict("records")]
    window = sum(ns for _, ns in rows)
    if len(analysis.stages) < 2 or not window:
        return None
    parts = []
    for stages, ns in rows:
        name = count(stages, "stage") if stages else "none"
        # Four steps from no stage to all of them.
        fill = f"step{-(-3 * stages // len(analysis.stages))}"
        labels = (f"{name} {share(ns / window)}", name, str(stages))
        parts.append(Part(fill, ns / window, labels, f"{name}: {duration(ns)}, {share(ns / window)}"))
    said = "; ".join(part.title for part in parts if part.share > 0)
    return element("div", bar(parts, f"stages computing at once: {said}"), class_="bars")


def request_bars(analysis: Analysis) -> Html | None:
    """The slowest requests: where the time to first token of each went, all on one scale."""
    shown = [each for each in slowest(analysis, _MOST_REQUESTS) if each.ttft_ns and each.breakdown_ns]
    if not shown:
        return None
    numbers = request_numbers(analysis)
    longest = max(each.ttft_ns or 0 for each in shown)
    rows = [_request(each, numbers[each.request, each.arrival_ns], longest) for each in shown]
    named = {_COMPUTE.sub("compute", name) for each in shown for name, ns in each.breakdown_ns.items() if ns}
    keys = (
        element("li", swatch(fill, "N" if name == "compute" else ""), words)
        for name, (fill, words) in _PARTS.items()
        if name in named
    )
    return element("div", *rows, element("ul", *keys, class_="keys"), class_="bars")


def _request(request: RequestBreakdown, number: int, longest: int) -> Html:
    parts = []
    for name, ns in request.breakdown_ns.items():
        stage = _COMPUTE.fullmatch(name)
        kind, word = ("compute", f"compute on stage {stage[1]}") if stage else (name, name)
        part = share(ns / (request.ttft_ns or 1))
        labels = (f"{word} {part}", f"{stage[1]}: {part}", stage[1]) if stage else (f"{word} {part}", part)
        parts.append(Part(_PARTS[kind][0], ns / longest, labels, f"{word}: {duration(ns)}, {part}"))
    jump = f"request {number}"
    name = element("button", jump, type="button", data_jump=jump)
    said = "; ".join(part.title for part in parts if part.share > 0)
    return labelled(name, bar(parts, f"request {number}: {said}"), duration(request.ttft_ns or 0))


def _quiet(text: str) -> Html:
    return element("p", text, class_="quiet")
