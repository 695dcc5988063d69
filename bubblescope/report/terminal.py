"""The page on a terminal: told apart by marks and words; colour only adds to them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pandas as pd
from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.panel import Panel
from rich.segment import Segment
from rich.table import Table as Grid
from rich.text import Text

from bubblescope.report.page import Page, Row
from bubblescope.report.quantities import duration
from bubblescope.report.section import Line, Section, Table
from bubblescope.report.shades import ASCII_MARKS, MARKS, strip

_STYLES = {
    "compute": "green",
    "starved": "bold red",
    "blocked": "magenta",
    "host": "bold yellow",
    "transfer": "blue",
    "fill": "cyan",
    "drain": "cyan",
    "idle": "dim",
}
_TONES = {"good": "green", "bad": "red", "none": "yellow"}
_INDENT = (0, 0, 0, 2)


def show(page: Page, console: Console) -> None:
    """Print the page as wide as the console is."""
    for part in _parts(page, _marks(console)):
        console.print(_Unbroken(part))


def _parts(page: Page, marks: Mapping[str, str]) -> Iterator[RenderableType]:
    yield Text.assemble((page.source, "bold"), "  ", _words(", ".join(page.facts)))
    yield _verdict(page)
    if page.rows:
        yield _overview(page, marks)
    if page.states:
        yield Padding(_legend(page, marks), _INDENT)
        yield _title(f"Time in each state, {page.unit.name}")
        yield Padding(StatesTable(page, page.rows), _INDENT)
        yield Padding(Text(page.note, style="dim"), _INDENT)
    if page.states and page.ranks:
        yield _title(f"Every rank, {page.unit.name}")
        yield Padding(StatesTable(page, page.ranks), _INDENT)
    for section in page.sections:
        yield _title(section.title)
        yield Padding(_section(section), _INDENT)


#: Our own signs where a terminal has no Unicode, each as wide as it was.
_ASCII = str.maketrans({"µ": "u", "…": "."})
#: A number and its unit stay on one line. The sign between them is in no text of a page: it is
#: not printable, so what comes from a recording has it as an escape.
_JOINT = "\ue000"
_JOINED = re.compile(r"(?<=[0-9]) (?=(?:%|ns|µs|ms|s)(?![a-z]))")


@dataclass(frozen=True)
class _Unbroken:
    """Anything, with its joints shown as spaces, and in ASCII if need be, after the lines are made."""

    part: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for segment in console.render(self.part, options):
            text = segment.text.replace(_JOINT, " ")
            yield segment._replace(text=text.translate(_ASCII) if options.ascii_only else text)


def _words(text: str, style: str = "") -> Text:
    return Text(_JOINED.sub(_JOINT, text), style)


def _marks(console: Console) -> Mapping[str, str]:
    return ASCII_MARKS if console.options.ascii_only else MARKS


def _title(text: str) -> Text:
    return Text(f"\n{text}", style="bold")


def _verdict(page: Page) -> Panel:
    text = _words(page.verdict.text, "bold")
    if page.bubble is not None:
        text.append("\n").append_text(_words(page.bubble, "not bold"))
    return Panel(text, border_style=_TONES[page.verdict.tone], box=box.ROUNDED)


def _overview(page: Page, marks: Mapping[str, str]) -> Grid:
    """One line per stage: what it is, what it did over the window, how much of it was bubble."""
    grid = Grid(
        box=None, expand=True, padding=(0, 2, 0, 0), header_style="dim", show_footer=bool(page.states)
    )
    staged = any(row.layers for row in page.rows)
    begin_ns, end_ns = page.window_ns
    ends = (duration(page.offset_ns), duration(page.offset_ns + end_ns - begin_ns))
    grid.add_column("", no_wrap=True)
    grid.add_column("device", overflow="fold", max_width=28)
    if staged:
        grid.add_column("layers", justify="right")
    grid.add_column("over time", ratio=1, footer=_Axis(*ends))
    if staged:
        grid.add_column("bubble", justify="right", no_wrap=True)
    for row in page.rows:
        cells: list[RenderableType] = [Text(row.label), Text(row.device)]
        cells += [Text(row.layers)] if staged else []
        cells.append(_over_time(page, row, marks))
        cells += [Text(row.bubble)] if staged else []
        grid.add_row(*cells)
    return grid


def _over_time(page: Page, row: Row, marks: Mapping[str, str]) -> RenderableType:
    if not row.states_ns:
        return Text("no work of it recorded", style="dim")
    return Marks(row.timeline, page.window_ns, marks)


def _legend(page: Page, marks: Mapping[str, str]) -> Text:
    legend = Text()
    for state in page.states:
        legend.append(marks[state], style=_STYLES[state])
        legend.append(f"{_JOINT}{state}   ")
    return legend


@dataclass(frozen=True)
class Marks:
    """A strip as wide as there is room."""

    timeline: pd.DataFrame
    window_ns: tuple[int, int]
    marks: Mapping[str, str]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        drawn = Text(no_wrap=True)
        for state in strip(self.timeline, self.window_ns, options.max_width):
            drawn.append(" " if state is None else self.marks[state], style=_STYLES.get(state or "", ""))
        yield drawn

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(min(10, options.max_width), options.max_width)


@dataclass(frozen=True)
class _Axis:
    """The two ends of a strip."""

    begin: str
    end: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        gap = max(1, options.max_width - len(self.begin) - len(self.end))
        yield Text(f"{self.begin}{' ' * gap}{self.end}", style="dim", no_wrap=True)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(min(10, options.max_width), options.max_width)


@dataclass(frozen=True)
class StatesTable:
    """Time and percent of every state that occurs, never cut.

    On one line where the width allows it, else percent under time, else in blocks one under the other.
    """

    page: Page
    rows: tuple[Row, ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        yield from self._fitting(console, options, self.page.states)

    def _fitting(
        self, console: Console, options: ConsoleOptions, states: tuple[str, ...]
    ) -> Iterator[RenderableType]:
        unbounded = options.update(max_width=10_000)
        for between in (" ", "\n"):
            grid = self._grid(states, between)
            if Measurement.get(console, unbounded, grid).maximum <= options.max_width:
                yield grid
                return
        if len(states) == 1:
            yield grid
            return
        half = (len(states) + 1) // 2
        yield from self._fitting(console, options, states[:half])
        yield from self._fitting(console, options, states[half:])

    def _grid(self, states: tuple[str, ...], between: str) -> Grid:
        # The box sets a space between columns beside the padding.
        grid = Grid(
            box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim"
        )
        grid.add_column("", no_wrap=True)
        for state in states:
            grid.add_column(state, justify="right", no_wrap=True)
        for row in self.rows:
            grid.add_row(Text(row.label), *(_cell(self.page, row, state, between) for state in states))
        return grid


def _cell(page: Page, row: Row, state: str, between: str) -> Text:
    number, part = page.figures(row, state)
    return Text.assemble(number, (f"{between}{part:>6}" if part else "", "dim"))


def _section(section: Section) -> RenderableType:
    grid = Grid.grid()
    if section.table is not None:
        grid.add_row(_table(section.table))
    for line in section.lines:
        grid.add_row(_line(line))
    return grid


def _table(table: Table) -> Grid:
    grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in table.header:
        grid.add_column(name, justify="right" if name in table.numbers else "left", overflow="fold")
    for row in table.rows:
        grid.add_row(*map(_words, row))
    return grid


def _line(line: Line) -> Text:
    text = _words(line.text)
    if line.code is not None:
        text.append("  ")
        text.append(line.code, style="bold cyan")
    return text
