"""A command that failed is said to have failed, in its recording's own words."""

from __future__ import annotations

from typing import Any

import pytest

from bubblescope.report.document import document
from bubblescope.report.failure import failure
from bubblescope.report.page import page
from bubblescope.trace.model import Run
from tests.report.analyses import analysis

EXPLAINED = {"explanation": "vLLM has no memory left. What to do: fewer layers.", "known": "no-kv-cache"}


def made(facts: dict[str, Any]) -> Any:
    return analysis([[("compute", 5)], [("compute", 5)]], run=Run(engine="vllm", facts=facts))


def test_it_stands_first_on_the_page_and_in_the_document() -> None:
    found = made({"failure": EXPLAINED})
    first = page(found, "t.json").sections[0]
    assert (first.title, [line.text for line in first.lines]) == (
        "How it ended",
        ["vLLM has no memory left. What to do: fewer layers."],
    )
    assert document(found)["failure"] == EXPLAINED["explanation"]


def test_control_characters_do_not_reach_a_terminal() -> None:
    section = failure(made({"failure": {"explanation": "a\x1b[2Jb\nc"}}))
    assert section is not None
    assert section.lines[0].text.isprintable()


@pytest.mark.parametrize(
    "facts", [{}, {"failure": "text"}, {"failure": {"explanation": 7}}, {"failure": None}]
)
def test_nothing_is_said_where_nothing_of_that_kind_is_told(facts: dict[str, Any]) -> None:
    assert failure(made(facts)) is None
    assert document(made(facts))["failure"] is None
