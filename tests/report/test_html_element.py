"""Text becomes markup only where it is meant to."""

from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from bubblescope.report.html.element import Html, element, joined


class Read(HTMLParser):
    """What a browser would make of it: tags with their attributes, and text."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


# Carriage returns are the one thing that HTML itself does not keep.
TEXTS = st.text(st.characters(exclude_characters="\r\0", exclude_categories=["Cs"]))


@given(TEXTS, TEXTS)
def test_any_text_is_shown_and_does_nothing(text: str, title: str) -> None:
    read = Read(element("p", text, title=title))
    assert read.tags == [("p", {"title": title})]
    assert read.text == text


def test_markup_goes_in_as_it_is_and_text_beside_it_does_not() -> None:
    assert element("p", element("b", "<i>"), "<i>") == "<p><b>&lt;i&gt;</b>&lt;i&gt;</p>"
    assert joined(["&", Html("&amp;")]) == "&amp;&amp;"


def test_attributes_have_the_names_that_html_gives_them() -> None:
    made = element("button", "go", class_="x", data_jump=3, hidden=True, disabled=False, title=None)
    assert made == '<button class="x" data-jump="3" hidden>go</button>'
