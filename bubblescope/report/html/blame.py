"""The blame matrix as a heat map with numbers: who waited, for whom, how long and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TypeVar

from bubblescope.analyzers.results import Analysis
from bubblescope.report.html.element import Html, element
from bubblescope.report.quantities import duration, share
from bubblescope.report.waits import Wait, count, reason, waits

Number = TypeVar("Number", int, "int | None")

#: A larger matrix is one that nobody reads: the stages with the longest waits are shown.
_MOST_STAGES = 24
#: Up to so many culprits there is room for time and cause beside the share.
_ROOMY = 6
#: A cause with a smaller share of a cell is told on hovering only.
_WORTH_NAMING = 0.02


def blame_matrix(analysis: Analysis) -> Html | None:
    """Rows are the stages that waited, columns those they waited for; None where nobody waited."""
    found = waits(analysis)
    if not found:
        return None
    cells: dict[tuple[int, int | None], list[Wait]] = defaultdict(list)
    for wait in found:
        cells[wait.stage, wait.culprit].append(wait)
    stages = sorted(_longest((wait.stage, wait.ns) for wait in found))
    culprits = _longest((wait.culprit, wait.ns) for wait in found)
    culprits.sort(key=lambda stage: (stage is None, stage))
    roomy = len(culprits) <= _ROOMY
    head = (element("th", _column(culprit, roomy), scope="col") for culprit in culprits)
    rows = (
        element(
            "tr",
            element("th", f"stage {stage}", scope="row"),
            *(_cell(cells[stage, culprit], roomy) for culprit in culprits),
        )
        for stage in stages
    )
    corner = element("td", "waited ↓ for →" if roomy else "% waited ↓ for stage →")
    table = element("table", element("tr", corner, *head), *rows, class_="matrix")
    return element("div", table, *_left_out(analysis, stages), class_="wide")


def _longest(waited: Iterable[tuple[Number, int]]) -> list[Number]:
    """Of these stages the ones with the most time."""
    totals: dict[Number, int] = defaultdict(int)
    for stage, ns in waited:
        totals[stage] += ns
    return sorted(totals, key=lambda stage: -totals[stage])[:_MOST_STAGES]


def _column(culprit: int | None, roomy: bool) -> str:
    if culprit is None:
        return "nobody known" if roomy else "?"
    return f"stage {culprit}" if roomy else str(culprit)


def _cell(waited: Sequence[Wait], roomy: bool) -> Html:
    if not waited:
        return element("td")
    ratio = sum(wait.share for wait in waited)
    number = share(ratio)
    lines = [element("b", number if roomy else number.removesuffix(" %"))]
    if roomy:
        lines.append(element("span", duration(sum(wait.ns for wait in waited))))
        lines += (element("span", cause) for cause in _causes(waited))
    title = "\n".join(
        f"{reason(wait.stage, wait.culprit, wait.cause)}: {duration(wait.ns)}" for wait in waited
    )
    return element("td", *lines, title=title, style=f"--heat:{100 * min(ratio, 1):.0f}%")


def _causes(waited: Sequence[Wait]) -> list[str]:
    """Why, the largest cause first: each with its time where there are several."""
    whole = sum(wait.ns for wait in waited)
    shown = [wait for wait in waited if wait.ns >= _WORTH_NAMING * whole]
    if len(shown) == 1:
        return [shown[0].cause.replace("_", " ")]
    return [f"{wait.cause.replace('_', ' ')} {duration(wait.ns)}" for wait in shown]


def _left_out(analysis: Analysis, shown: Sequence[int]) -> list[Html]:
    missing = len(analysis.stages) - len(shown)
    words = f"{count(missing, 'stage')} that waited less or not at all: not shown."
    return [element("p", words, class_="quiet")] if missing else []
