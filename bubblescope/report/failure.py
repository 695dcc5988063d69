"""How the recorded command failed, where its recording tells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bubblescope.analyzers.results import Analysis
from bubblescope.report.escape import visible
from bubblescope.report.section import Line, Section

_FACT = "failure"
_LONGEST = 1000


def failure(analysis: Analysis) -> Section | None:
    """What happened, why and what to do, in one line; None where the command did not fail."""
    text = explanation(analysis.trace.run.facts)
    return None if text is None else Section("How it ended", (Line(visible(text, _LONGEST)),))


def explanation(facts: Mapping[str, Any]) -> str | None:
    """The paragraph that `record` closed with; a foreign file may hold anything under that name."""
    fact = facts.get(_FACT)
    text = fact.get("explanation") if isinstance(fact, dict) else None
    return text if isinstance(text, str) else None
