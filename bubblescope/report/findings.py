"""What the engine's own ways cost: the largest in the verdict, those that matter in a list."""

from __future__ import annotations

from collections.abc import Sequence

from bubblescope.analyzers.results import Analysis, Finding
from bubblescope.report.escape import visible
from bubblescope.report.losses import WORTH_NAMING
from bubblescope.report.quantities import duration, share
from bubblescope.report.section import Line, Section
from bubblescope.report.waits import sentence_case

#: What costs less than this share of a prompt is not listed by itself.
_WORTH_LISTING = 0.01
#: Said by the advice already.
_ADVISED = "layer-split"


def cure_by_flag(analysis: Analysis) -> str | None:
    """The finding whose flag gains most, as a sentence; None where none gains enough to be named."""
    curable = [each for each in _others(analysis) if each.flag and each.predicted_gain is not None]
    most = max(curable, key=lambda each: each.predicted_gain or 0.0, default=None)
    if most is None or (most.predicted_gain or 0.0) < WORTH_NAMING:
        return None
    gain = f"{share(most.predicted_gain)} of a prompt's prefill to gain"
    return f"{sentence_case(visible(most.text))}: {visible(most.flag or '')}, {gain}."


def findings(analysis: Analysis) -> Section | None:
    """The findings, the largest first, and how many there are too small for a line."""
    found = sorted(_others(analysis), key=lambda each: -each.ns)
    large = [each for each in found if each.ns >= _WORTH_LISTING * _prompt_ns(analysis)]
    lines = [_line(each) for each in large]
    small = found[len(large) :]
    if small:
        text = f"{len(small)} cost less than {share(_WORTH_LISTING)} of a prompt each: {_named(small)}"
        lines.append(Line(text))
    return Section("Worth knowing", tuple(lines)) if lines else None


def _others(analysis: Analysis) -> list[Finding]:
    return [each for each in analysis.findings if each.id != _ADVISED]


def _line(found: Finding) -> Line:
    gain = "" if found.predicted_gain is None else f", {share(found.predicted_gain)} to gain"
    flag = None if found.flag is None else visible(found.flag)
    return Line(f"{sentence_case(visible(found.text))} ({duration(found.ns)}{gain})", flag)


def _named(small: Sequence[Finding]) -> str:
    return ", ".join(f"{visible(each.id)} {duration(each.ns)}" for each in small)


def _prompt_ns(analysis: Analysis) -> int:
    """How long a prompt takes, as a mean; the whole window where that is not known."""
    return analysis.recommendation.makespan_ns or analysis.window_ns[1] - analysis.window_ns[0]
