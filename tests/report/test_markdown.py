"""The report as it is posted."""

from __future__ import annotations

import io
import re
from html.parser import HTMLParser

from markdown_it import MarkdownIt
from rich.console import Console

from bubblescope.report.markdown import to_markdown
from bubblescope.report.page import page
from bubblescope.report.terminal import show
from bubblescope.trace.model import Device
from tests.report.analyses import analysis, without_devices_work
from tests.report.test_terminal import HOSTILE, UNEVEN, _hostile


class _Seen(HTMLParser):
    """The text that a reader of the rendered page sees, and the tags it is made of."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def _seen(source: str) -> _Seen:
    seen = _Seen()
    seen.feed(MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(source))
    return seen


def test_the_rendered_page_has_verdict_tables_and_waits() -> None:
    seen = _seen(to_markdown(page(UNEVEN, "rank_0")))
    assert "Bubblescope: rank_0" in seen.text
    assert "Stage 1 (NVIDIA H200, 9 layers) waits 50 % of the time for stage 0" in seen.text
    assert "900.0 (90\u00a0%)" in seen.text
    assert "Stage 1 waited for stage 0 to compute: 500 ms (50 %)" in seen.text
    assert {"table", "pre", "strong", "ul"} <= seen.tags


def test_each_row_of_a_table_has_as_many_cells_as_its_header() -> None:
    tables = re.findall(r"(?:^\|.*\n)+", to_markdown(page(_hostile(), "x")), re.MULTILINE)
    assert tables
    for found in tables:
        cells = {len(re.findall(r"(?<!\\)\|", line)) for line in found.splitlines()}
        assert len(cells) == 1


def test_says_what_the_terminal_says() -> None:
    file = io.StringIO()
    show(page(UNEVEN, "x"), Console(file=file, width=300, highlight=False))
    posted = _seen(to_markdown(page(UNEVEN, "x"))).text
    for section in page(UNEVEN, "x").sections:
        for line in section.lines:
            assert line.text in file.getvalue()
            assert line.text in posted


def test_a_hostile_recording_stays_text() -> None:
    source = to_markdown(page(_hostile(), HOSTILE + "<script>x</script> ![i](u) @someone"))
    seen = _seen(source)
    assert seen.tags <= {
        "h3",
        "h4",
        "p",
        "strong",
        "pre",
        "code",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
    } | {
        "ul",
        "li",
    }
    assert "<script>x</script>" in seen.text
    assert "@someone" not in seen.text
    assert all(char.isprintable() or char in "\n\u200b\u00a0" for char in source)


def test_no_devices_no_tables() -> None:
    assert "No device activity" in _seen(to_markdown(page(without_devices_work([Device()]), "x"))).text
    assert "No device activity" in _seen(to_markdown(page(analysis([]), "x"))).text
