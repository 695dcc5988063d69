"""A later run beside an earlier one: both count from 0, and what they count is not the same work."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from bubblescope.errors import NotATraceError
from bubblescope.trace.frames import UNKNOWN
from bubblescope.trace.model import Trace

_LARGEST = int(np.iinfo(np.int64).max)


def numbered_after(kept: Trace, later: Sequence[Trace]) -> list[Trace]:
    """The traces of a later run, its microbatches and steps going on where those of `kept` end.

    The hosts of the later run keep their numbers in common. Raises NotATraceError where the numbers would
    be too large.
    """
    microbatch = _first_free("microbatch", kept, later)
    step = _first_free("step", kept, later)
    return [
        replace(
            trace,
            spans=trace.spans.assign(
                microbatch=_raised(trace.spans["microbatch"], microbatch),
                step=_raised(trace.spans["step"], step),
            ),
            slices=trace.slices.assign(microbatch=_raised(trace.slices["microbatch"], microbatch)),
        )
        for trace in later
    ]


def _first_free(column: str, kept: Trace, later: Sequence[Trace]) -> int:
    first = _greatest(column, [kept]) + 1
    if first + _greatest(column, later) > _LARGEST:
        raise NotATraceError(
            f"the {column} numbers are too large for a second run beside them; record it into another file"
        )
    return first


def _greatest(column: str, traces: Iterable[Trace]) -> int:
    told = [table[column] for t in traces for table in (t.spans, t.slices) if column in table]
    return max((int(numbers.max()) for numbers in told if len(numbers)), default=UNKNOWN)


def _raised(numbers: pd.Series[int], by: int) -> pd.Series[int]:
    return numbers.where(numbers < 0, numbers + by)
