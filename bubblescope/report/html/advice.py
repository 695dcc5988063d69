"""The split before and after: layers per stage, and what a prompt takes with each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bubblescope.analyzers.results import Analysis
from bubblescope.report.html.element import Html, element
from bubblescope.report.html.shapes import SHADES, Part, bar, labelled
from bubblescope.report.quantities import duration
from bubblescope.report.waits import count


def before_after(analysis: Analysis) -> Html | None:
    """The recorded split above the advised one; None where there is no advice."""
    found = analysis.recommendation
    if found.partition is None:
        return None
    now = [stage.layers for stage in analysis.stages]
    rows = [_split("layers now", now), _split("layers advised", found.partition)]
    rows += _times("prefill", found.makespan_ns, found.predicted_makespan_ns, found.predicted_range_ns)
    rows += _times("TTFT", found.ttft_ns, found.predicted_ttft_ns, None)
    return element("div", *rows, class_="bars")


def _split(name: str, layers: Sequence[int | None]) -> Html:
    whole = sum(each or 0 for each in layers)
    parts = []
    for stage, held in enumerate(layers):
        words = f"stage {stage}: {count(held or 0, 'layer')}"
        labels = (words, str(held), "")
        parts.append(Part(f"batch{stage % SHADES}", (held or 0) / max(whole, 1), labels, words))
    said = "; ".join(part.title for part in parts)
    split = ",".join("?" if held is None else str(held) for held in layers)
    return labelled(element("strong", name), bar(parts, f"{name}: {said}"), split if len(layers) <= 4 else "")


def _times(
    name: str, now: int | None, predicted: int | None, between: tuple[int, int] | None
) -> Iterator[Html]:
    """Two bars on one scale; what the prediction leaves open is paler."""
    if now is None or predicted is None:
        return
    low, high = between or (predicted, predicted)
    scale = max(now, high, 1)
    yield labelled(element("strong", f"{name} now"), _time(now, 0, scale, duration(now)), duration(now))
    title = duration(predicted)
    if between is not None:
        title += f", between {duration(low)} and {duration(high)}"
    drawn = _time(low, high - low, scale, title)
    yield labelled(element("strong", f"{name} advised"), drawn, duration(predicted))


def _time(sure: int, open_ns: int, scale: int, title: str) -> Html:
    parts = (Part("compute", sure / scale, (), title), Part("step1", open_ns / scale, (), title))
    return bar(parts, title)
