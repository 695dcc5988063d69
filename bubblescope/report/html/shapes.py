"""Bars and keys: the shades and patterns by which states are told apart, without colour too."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bubblescope.report.html.element import Html, element

#: In a narrow window a bar is so wide, and a letter on it; what fits there fits anywhere.
_NARROWEST = 400
_LETTER = 7.2

#: How many shades there are for what is only to be told apart: "batch0" and so on.
SHADES = 6


@dataclass(frozen=True)
class Part:
    """A part of a bar.

    fill: a state, or another shade of the style sheet. share: of the whole bar.
    labels: what to write on it, the first that fits. title: what is told on hovering.
    """

    fill: str
    share: float
    labels: tuple[str, ...]
    title: str


def bar(parts: Iterable[Part], description: str) -> Html:
    """Parts from left to right, as wide as there is room; `description` is for those who do not see it."""
    drawn, at = [], 0.0
    for part in parts:
        if part.share > 0:
            room = part.share * _NARROWEST
            label = next((each for each in part.labels if _LETTER * len(each) + 6 <= room), "")
            field = _field(part.fill, at, part.share, label)
            drawn.append(element("g", element("title", part.title), *field))
        at += part.share
    return element("svg", *drawn, class_="bar", role="img", aria_label=description)


def labelled(name: Html, drawn: Html, figure: str) -> Html:
    """A row: what it is about, the bar, and a figure at its end."""
    cells = (element("div", name, class_="name"), drawn, element("div", figure, class_="figure"))
    return element("div", *cells, class_="row")


def swatch(fill: str, letter: str) -> Html:
    """A small field of a shade with the letter that stands on it, for a legend."""
    return element("svg", *_field(fill, 0, 1, letter), class_="swatch", aria_hidden="true")


def _field(fill: str, at: float, share: float, label: str) -> tuple[Html, Html]:
    left, width, middle = (f"{100 * each:.3f}%" for each in (at, share, at + share / 2))
    return (
        element("rect", x=left, width=width, height="100%", class_=f"is-{fill}"),
        element("text", label, x=middle, y="50%", class_=f"on-{fill}"),
    )
