"""The advice on the split, with what it saves and what it takes for granted."""

from __future__ import annotations

from collections.abc import Iterator

from bubblescope.analyzers.results import Analysis, Recommendation
from bubblescope.report.escape import visible
from bubblescope.report.findings import flag_to_set
from bubblescope.report.quantities import duration, share
from bubblescope.report.section import Line, Section

#: The section's title.
ADVICE = "What to change"


def advice(analysis: Analysis) -> Section | None:
    """What to give the engine and what that is worth, or why there is no advice; None without stages."""
    if not analysis.stages:
        return None
    found = analysis.recommendation
    remarks = (Line(visible(_sentence(each))) for each in found.remarks)
    split = [_first(found), *_figures(found), *remarks]
    flag = flag_to_set(analysis)
    flags = [] if flag is None else [flag]
    return Section(ADVICE, (*flags, *split) if found.words is None else (*split, *flags))


def _first(found: Recommendation) -> Line:
    """The advice with what to type, or with words where no flag or variable of the engine is known."""
    reason = visible(_sentence(found.reason))
    if found.words is None:
        return Line(reason)
    words = visible(found.words)
    return Line(reason, words) if "=" in words or words.startswith("-") else Line(f"{reason}: {words}")


def _figures(found: Recommendation) -> Iterator[Line]:
    """Before and after, as far as both are known."""
    if found.makespan_ns is None or found.predicted_makespan_ns is None:
        return
    now, then = duration(found.makespan_ns), duration(found.predicted_makespan_ns)
    if found.predicted_makespan_ns < found.makespan_ns:
        text = f"Prefill of a prompt on the devices: {now} now, {then} predicted"
    else:
        # More prompts follow each other closely: what is saved is saved before a prompt begins.
        text = f"A prompt waits less before it begins, and is on the devices for {then} instead of {now}"
    if found.predicted_range_ns is not None:
        low, high = found.predicted_range_ns
        text += f" ({duration(low)} to {duration(high)})"
    yield Line(f"{text}; the simulator misses the recording by {share(found.error)}")
    if found.ttft_ns is not None and found.predicted_ttft_ns is not None:
        now, then = duration(found.ttft_ns), duration(found.predicted_ttft_ns)
        yield Line(f"Time to first token: {now} now, {then} predicted")


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
