"""Under the timeline: clock, power, temperature and traffic of each device over the window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from bubblescope.analyzers.results import Analysis
from bubblescope.report.counters import SHOWN, in_window
from bubblescope.report.html.element import Html, element, joined
from bubblescope.report.html.shapes import labelled
from bubblescope.report.html.timeline import Lane

#: So many points make one line smooth, and so many on a page keep it small.
_FINEST, _MOST_POINTS = 240, 20_000
_WIDTH, _HEIGHT, _EDGE = 1000, 24, 2


def counter_strips(analysis: Analysis, lanes: Sequence[Lane]) -> Html | None:
    """A section with a strip per lane and counter; None where nothing was sampled in the window."""
    found = [
        (lane, name, samples)
        for lane in lanes
        for name, samples in _shown(analysis, lane.device)
        if samples["value"].max() > 0
    ]
    if not found:
        return None
    points = max(min(_FINEST, _MOST_POINTS // len(found)), 2)
    rows = (_row(lane, name, samples, analysis.window_ns, points) for lane, name, samples in found)
    note = "Over the whole window, from the smallest to the largest value of each line."
    return element(
        "section",
        element("h2", "Clocks, power, temperature"),
        element("div", *rows, class_="bars strips"),
        element("p", note, class_="quiet"),
    )


def _shown(analysis: Analysis, device: int) -> Iterator[tuple[str, pd.DataFrame]]:
    """In the order in which they are shown."""
    own = dict(in_window(analysis, device))
    return ((name, own[name]) for name in SHOWN if name in own)


def _row(lane: Lane, name: str, samples: pd.DataFrame, window_ns: tuple[int, int], points: int) -> Html:
    shown = SHOWN[name]
    figure = shown.figure(float(samples["value"].min()), float(samples["value"].max()))
    line = element("polyline", points=_points(samples, window_ns, points))
    drawn = element(
        "svg",
        line,
        class_="strip",
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=f"{lane.name}, {shown.label}: {figure}",
    )
    title = joined([element("strong", lane.name), element("span", shown.label)])
    return labelled(title, drawn, figure)


def _points(samples: pd.DataFrame, window_ns: tuple[int, int], most: int) -> str:
    """The line's corners: the mean of the samples of each of at most `most` equal parts of the window."""
    begin_ns, end_ns = window_ns
    part = ((samples["time_ns"] - begin_ns) * most // (end_ns - begin_ns)).to_numpy()
    means = samples["value"].groupby(part).mean()
    low, high = float(samples["value"].min()), float(samples["value"].max())
    across = (means.index.to_numpy() + 0.5) * _WIDTH / most
    share = (means.to_numpy() - low) / (high - low) if high > low else np.full(len(means), 0.5)
    down = _EDGE + (1 - share) * (_HEIGHT - 2 * _EDGE)
    if len(means) == 1:  # a line needs two ends
        across, down = np.array([0.0, _WIDTH]), np.repeat(down, 2)
    return " ".join(f"{x:.0f},{y:.1f}" for x, y in zip(across, down, strict=True))
