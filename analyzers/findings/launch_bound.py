"""Devices that stand still within a microbatch because their own process launches kernels too slowly."""

from __future__ import annotations

from collections.abc import Iterator

from bubblescope.analyzers import intervals as iv
from bubblescope.analyzers.kernels import launch_gaps
from bubblescope.analyzers.operations import devices_with_kernels
from bubblescope.analyzers.results import Analysis, Finding

#: Gaps below this share of a forward are what any stream of kernels has.
SHARE = 0.05
_EAGER = "--enforce-eager"


def launch_bound(analysis: Analysis) -> Iterator[Finding]:
    """One finding per stage whose kernels are recorded and leave so much of its forwards empty."""
    seen = devices_with_kernels(analysis.trace)
    eager = _EAGER in analysis.trace.run.command
    for stage in analysis.stages:
        device = stage.devices[0]
        if device not in seen:
            continue
        gaps, at_work = launch_gaps(analysis.timeline, analysis.spans, device)
        empty = iv.total(gaps)
        share = empty / max(1, iv.total(at_work))
        if share < SHARE:
            continue
        text = (
            f"between kernels of one microbatch stage {stage.stage} has nothing to run for "
            f"{100 * share:.0f} % of the time that it works on them: its own process launches them too slowly"
        )
        yield Finding("launch-bound", empty, stage.stage, text, f"leave {_EAGER} out" if eager else None)
