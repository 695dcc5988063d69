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
#: Its size is that of all prompts together; of the others it is a prompt's.
_IN_ALL = "launch-bound"


def cure_by_flag(analysis: Analysis) -> str | None:
    """The finding whose flag gains most, or else costs most, as a sentence; None where none is large."""
    found = _most(analysis)
    if found is None:
        return None
    most, size = found
    return f"{sentence_case(visible(most.text))}: {visible(most.flag or '')}, {size}."


def flag_to_set(analysis: Analysis) -> Line | None:
    """The flag that gains most, to be typed, with what it is worth, where that is known."""
    found = _most(analysis)
    if found is None or found[0].predicted_gain is None:
        return None
    most, size = found
    return Line(sentence_case(size), visible(most.flag or ""))


def _most(analysis: Analysis) -> tuple[Finding, str] | None:
    """The finding, and its size in words."""
    curable = [each for each in _others(analysis) if each.flag]
    known = [each for each in curable if (each.predicted_gain or 0.0) >= WORTH_NAMING]
    large = [each for each in curable if each.ns >= WORTH_NAMING * _whole_ns(analysis, each)]
    if known:
        most = max(known, key=lambda each: each.predicted_gain or 0.0)
        return most, f"{share(most.predicted_gain)} of a prompt's prefill to gain"
    if large:
        most = max(large, key=lambda each: each.ns)
        return most, f"it {_costs(most)}"
    return None


def findings(analysis: Analysis) -> Section | None:
    """The findings, the largest first, and how many there are too small for a line."""
    found = sorted(_others(analysis), key=lambda each: -each.ns)
    large = [each for each in found if each.ns >= _WORTH_LISTING * _whole_ns(analysis, each)]
    lines = [_line(each) for each in large]
    small = [each for each in found if each not in large]
    if small:
        number = "1 costs" if len(small) == 1 else f"{len(small)} cost"
        text = f"{number} less than {share(_WORTH_LISTING)} of a prompt: {_named(small)}"
        lines.append(Line(text))
    return Section("Worth knowing", tuple(lines)) if lines else None


def _others(analysis: Analysis) -> list[Finding]:
    return [each for each in analysis.findings if each.id != _ADVISED]


def _line(found: Finding) -> Line:
    gain = "" if found.predicted_gain is None else f", {share(found.predicted_gain)} to gain"
    flag = None if found.flag is None else visible(found.flag)
    return Line(f"{sentence_case(visible(found.text))} ({_costs(found)}{gain})", flag)


def _costs(found: Finding) -> str:
    size = duration(found.ns)
    return f"costs {size} in all" if found.id == _IN_ALL else f"costs a prompt {size}"


def _named(small: Sequence[Finding]) -> str:
    return ", ".join(f"{visible(each.id)} {duration(each.ns)}" for each in small)


def _whole_ns(analysis: Analysis, found: Finding) -> int:
    """Of what its size is a part: a prompt, as a mean, where that is known; else the whole window."""
    window_ns = analysis.window_ns[1] - analysis.window_ns[0]
    return window_ns if found.id == _IN_ALL else analysis.recommendation.makespan_ns or window_ns
