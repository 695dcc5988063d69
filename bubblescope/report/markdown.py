"""The page as GitHub's Markdown, to be posted where people help each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bubblescope.report.escape import markdown, markdown_code
from bubblescope.report.page import Page, Row
from bubblescope.report.quantities import duration
from bubblescope.report.section import Line, Section
from bubblescope.report.shades import MARKS, strip

_STRIP_CELLS = 72


def to_markdown(page: Page) -> str:
    """The whole report, ending in a newline."""
    return "\n".join(_lines(page)) + "\n"


def _lines(page: Page) -> Iterator[str]:
    yield f"### Bubblescope: {markdown(page.source)}"
    yield ""
    yield f"**{markdown(page.verdict.text)}**"
    yield ""
    if page.bubble is not None:
        yield f"{markdown(page.bubble)}\n"
    yield f"{markdown(', '.join(page.facts))}\n"
    if page.states:
        yield from _strips(page)
        yield from _states(page, page.rows)
    if page.ranks:
        yield "#### Every rank\n"
        yield from _states(page, page.ranks)
    for section in page.sections:
        yield from _section(section)


def _states(page: Page, rows: tuple[Row, ...]) -> Iterator[str]:
    staged = any(row.layers for row in rows)
    facts = ("device", "layers", "bubble") if staged else ("device",)
    numbers = {"layers", "bubble", *page.states}
    yield from _table(
        ("", *facts, *page.states),
        (
            (
                row.label,
                *((row.device, row.layers, row.bubble) if staged else (row.device,)),
                *(_cell(page, row, state) for state in page.states),
            )
            for row in rows
        ),
        numbers,
    )
    yield f"In {page.unit.name}; {page.note}.\n"


def _cell(page: Page, row: Row, state: str) -> str:
    number, part = page.figures(row, state)
    # No-break spaces, or narrow columns part the number from its sign.
    return f"{number} ({part})".replace(" %", "\u00a0%") if part else number


def _strips(page: Page) -> Iterator[str]:
    begin, end = page.window_ns
    width = max(len(row.label) for row in page.rows)
    yield "```"
    for row in page.rows:
        cells = strip(row.timeline, page.window_ns, _STRIP_CELLS)
        yield f"{row.label:{width}}  " + "".join(" " if state is None else MARKS[state] for state in cells)
    left, right = duration(page.offset_ns), duration(page.offset_ns + end - begin)
    yield f"{'':{width}}  {left}{right:>{_STRIP_CELLS - len(left)}}"
    yield ""
    yield "  ".join(f"{MARKS[state]} {state}" for state in page.states)
    yield "```\n"


def _section(section: Section) -> Iterator[str]:
    yield f"#### {section.title}\n"
    if section.table is not None:
        yield from _table(section.table.header, section.table.rows, section.table.numbers)
    yield from (_line(line) for line in section.lines)
    yield ""


def _line(line: Line) -> str:
    code = "" if line.code is None else f" {markdown_code(line.code)}"
    return f"- {markdown(line.text)}{code}"


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]], numbers: Iterable[str]) -> Iterator[str]:
    right = set(numbers)
    yield _row(header)
    yield "|" + "|".join("---:" if name in right else "---" for name in header) + "|"
    yield from (_row(cells) for cells in rows)
    yield ""


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(markdown(cell) for cell in cells) + " |"
