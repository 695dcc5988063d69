"""Strings from a recording are not ours: what they may not do to a terminal or a page."""

from __future__ import annotations

import re

LONGEST = 200

# Signs with a meaning anywhere, and those with one at the beginning of a line.
_MARKDOWN = re.compile(r"([\\`*_\[\]#|<>&~$]|^[-+=])")
# GitHub turns these into links and pings people; a zero-width space keeps them text.
_LINKED = re.compile(r"@|://|(?i:www)(?=\.)|#(?=[0-9])")


def visible(text: str, longest: int = LONGEST) -> str:
    """The text on one line: what a terminal would obey or hide is written as an escape; cut at `longest`.

    This covers control characters and ANSI sequences, bidirectional marks, line separators and
    lone surrogates.
    """
    return _escaped(text if len(text) <= longest else text[: longest - 1] + "…")


def visible_end(text: str, longest: int) -> str:
    """As `visible`, and cut at its beginning: names often differ at their ends only."""
    return _escaped(text if len(text) <= longest else "…" + text[len(text) - longest + 1 :])


def _escaped(text: str) -> str:
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in text
    )


def markdown(text: str) -> str:
    """The text so that Markdown shows it as it is."""
    linked = _LINKED.sub(lambda match: f"{match[0]}\u200b", text)
    return _MARKDOWN.sub(r"\\\1", linked)


def markdown_code(text: str) -> str:
    """The text as a code span, whatever backticks are in it."""
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"
