"""The HTML file: everything in one page, and nothing in it that a browser would have to fetch."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Sequence
from importlib.resources import files

from bubblescope import __version__
from bubblescope.analyzers.results import Analysis
from bubblescope.report.advice import ADVICE
from bubblescope.report.html.advice import before_after
from bubblescope.report.html.blame import blame_matrix
from bubblescope.report.html.counters import counter_strips
from bubblescope.report.html.detail import levels
from bubblescope.report.html.element import Html, element, joined
from bubblescope.report.html.figures import concurrency_bar, request_bars, state_bars
from bubblescope.report.html.pieces import pieces
from bubblescope.report.html.scene import packed, scene
from bubblescope.report.html.timeline import lanes, timeline_section
from bubblescope.report.page import Page, Row
from bubblescope.report.section import Line, Section, Table
from bubblescope.trace.frames import UNKNOWN

_LIBRARY = "plotly/plotly-basic.min.js"
_SCRIPTS = ("scene.js", "words.js", "timeline.js", "page.js")

#: The figure that stands above a section's words.
_FIGURES = {
    ADVICE: before_after,
    "Who waited for whom": blame_matrix,
    "Stages computing at once": concurrency_bar,
    "Requests": request_bars,
}


def to_html(analysis: Analysis, page: Page) -> bytes:
    """The whole file, in UTF-8. `page` is the page of the same analysis."""
    library, script = _own(_LIBRARY), "\n".join(_own(name) for name in _SCRIPTS)
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy(script, library)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", f"{page.source} - Bubblescope"),
        element("style", Html(_own("style.css"))),
    )
    shown = lanes(analysis, page)
    cut = pieces(analysis, [lane.device for lane in shown])
    detail = levels(cut.table, analysis.window_ns[1] - analysis.window_ns[0])
    drawn = not cut.table.empty
    numbered = bool((cut.table["microbatch"] != UNKNOWN).any())
    timeline = timeline_section(analysis, page, shown, numbered, detail[0].cell_ns)
    strips = counter_strips(analysis, shown)
    over_time = [each for each in (timeline if drawn else None, strips) if each is not None]
    body = element(
        "body",
        Html(_own("patterns.svg")),
        element("header", *_header(page)),
        element("main", _verdict(page), *over_time, *_sections(analysis, page)),
        element("footer", f"Bubblescope {__version__}. The timeline is drawn by plotly.js (MIT license)."),
        element(
            "script",
            packed(scene(analysis, shown, detail, cut.blames, page.offset_ns)),
            type="text/plain",
            id="scene",
        ),
        element("script", Html(library)),
        element("script", Html(script)),
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n".encode("utf-8", "replace")


def _own(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _policy(*scripts: str) -> str:
    """Nothing is fetched, and no script runs but ours and plotly's."""
    hashes = (base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in scripts)
    allowed = " ".join(f"'sha256-{each}'" for each in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "base-uri 'none'; form-action 'none'"
    )


def _header(page: Page) -> Iterator[Html]:
    yield element("div", element("h1", page.source), element("p", ", ".join(page.facts)))
    yield element("button", "Dark colours", type="button", id="theme", hidden=True)


def _verdict(page: Page) -> Html:
    bubble = () if page.bubble is None else (element("p", _unbroken(page.bubble)),)
    said = element("p", _unbroken(page.verdict.text), class_="said")
    return element("section", said, *bubble, *_first_change(page), class_=f"verdict {page.verdict.tone}")


def _first_change(page: Page) -> Iterator[Html]:
    """The advice in one line; the section of its own says more."""
    for section in page.sections:
        if section.title == ADVICE:
            yield element("p", element("b", f"{ADVICE}: "), *_said(section.lines[0]))


def _sections(analysis: Analysis, page: Page) -> Iterator[Html]:
    if page.states:
        yield _states("Time in each state", page, page.rows)
    for section in page.sections:
        figure = _FIGURES[section.title](analysis) if section.title in _FIGURES else None
        yield _section(section, figure)
    if page.states and page.ranks:
        yield _states("Every rank", page, page.ranks)


def _states(title: str, page: Page, rows: Sequence[Row]) -> Html:
    table = Table(
        header=("", *page.states),
        rows=tuple((row.label, *(_figures(page, row, state) for state in page.states)) for row in rows),
        numbers=frozenset(page.states),
    )
    note = (
        f"In {page.unit.name}, and in percent of the time in which a request was open (idle: of the window)."
    )
    return element(
        "section",
        element("h2", title),
        state_bars(page, rows),
        _table(table),
        element("p", note, class_="quiet"),
    )


def _figures(page: Page, row: Row, state: str) -> Html:
    number, part = page.figures(row, state)
    return joined([number, " ", element("small", part)])


def _section(section: Section, figure: Html | None) -> Html:
    table = () if section.table is None else (_table(section.table),)
    lines = (element("ul", *map(_line, section.lines)),) if section.lines else ()
    drawn = () if figure is None else (figure,)
    return element("section", element("h2", section.title), *drawn, *table, *lines)


def _line(line: Line) -> Html:
    return element("li", *_said(line))


def _said(line: Line) -> Iterator[str]:
    yield _unbroken(line.text)
    if line.code is not None:
        yield " "
        yield element("code", line.code)


def _unbroken(text: str) -> str:
    """No line begins with the unit of the number before."""
    return re.sub(r"(?<=\d) (?=(%|[mµn]?s)(\W|$))", "\u00a0", text)


def _table(table: Table) -> Html:
    def cells(kind: str, texts: Sequence[str]) -> Iterator[Html]:
        for name, text in zip(table.header, texts, strict=True):
            yield element(kind, text, class_="number" if name in table.numbers else None)

    head = element("thead", element("tr", *cells("th", table.header)))
    body = element("tbody", *(element("tr", *cells("td", row)) for row in table.rows))
    return element("div", element("table", head, body), class_="wide")
