"""Strings of a hostile recording."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from bubblescope.report.escape import markdown, markdown_code, visible


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b[2Jgone", r"\x1b[2Jgone"),
        ("two\nlines\r", r"two\nlines\r"),
        ("\u202eabc", r"\u202eabc"),
        ("\ud800", r"\ud800"),
        ("line\u2028separator", r"line\u2028separator"),
        ("H200 für 5 µs", "H200 für 5 µs"),
    ],
)
def test_what_a_terminal_would_obey_is_shown(hostile: str, shown: str) -> None:
    assert visible(hostile) == shown


@given(st.text(max_size=400))
def test_nothing_but_printable_text_passes(text: str) -> None:
    shown = visible(text, 100)
    assert shown.isprintable()
    assert "\n" not in shown


def test_a_long_name_is_cut() -> None:
    assert visible("x" * 50, 10) == "x" * 9 + "…"


def _rendered(source: str) -> str:
    return MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(source)


@pytest.mark.parametrize(
    "hostile",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=y>",
        "[click](javascript:x)",
        "![](x)",
        "**bold** _em_ ~~gone~~ `code`",
        "# heading",
        "- item",
        "a | b",
        "&lt;b&gt;",
        "\\*",
    ],
)
def test_markdown_shows_it_as_it_is(hostile: str) -> None:
    html = _rendered(markdown(hostile))
    as_text = hostile.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
    assert html == f"<p>{as_text}</p>\n"


@pytest.mark.parametrize("hostile", ["@someone", "#12", "https://x.test", "www.x.test", "WWW.x.test"])
def test_markdown_pings_and_links_nobody(hostile: str) -> None:
    sign = next(sign for sign in ("@", "#", "://", "www", "WWW") if sign in hostile)
    assert f"{sign}\u200b" in markdown(hostile).replace("\\#", "#")


@pytest.mark.parametrize("text", ["--flag x", "a`b", "``", "`"])
def test_code_survives_its_own_backticks(text: str) -> None:
    assert _rendered(markdown_code(text)) == f"<p><code>{text}</code></p>\n"
