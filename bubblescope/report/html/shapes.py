"""Bars and keys: the shades and patterns by which states are told apart, without colour too."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bubblescope.report.html.element import Html, element

#: The narrowest bar in a window, that on a phone (see the style sheet's max-width), and a letter on it.
_IN_WINDOW, _ON_PHONE = 400, 170
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
            labels = _fitting(part, _IN_WINDOW), _fitting(part, _ON_PHONE)
            drawn.append(
                element("g", element("title", part.title), *_field(part.fill, at, part.share, *labels))
            )
        at += part.share
    return element("svg", *drawn, class_="bar", role="img", aria_label=description)


def _fitting(part: Part, width: float) -> str:
    room = part.share * width
    return next((each for each in part.labels if _LETTER * len(each) + 6 <= room), "")


def labelled(name: Html, drawn: Html, figure: str) -> Html:
    """A row: what it is about, the bar, and a figure at its end."""
    cells = (element("div", name, class_="name"), drawn, element("div", figure, class_="figure"))
    return element("div", *cells, class_="row")


def swatch(fill: str, letter: str) -> Html:
    """A small field of a shade with the letter that stands on it, for a legend."""
    return element("svg", *_field(fill, 0, 1, letter, letter), class_="swatch", aria_hidden="true")


def _field(fill: str, at: float, share: float, label: str, on_phone: str) -> list[Html]:
    left, width, middle = (f"{100 * each:.3f}%" for each in (at, share, at + share / 2))
    words = [(label, "")] if label == on_phone else [(label, " in-window"), (on_phone, " on-phone")]
    return [
        element("rect", x=left, width=width, height="100%", class_=f"is-{fill}"),
        *(element("text", each, x=middle, y="50%", class_=f"on-{fill}{where}") for each, where in words),
    ]
