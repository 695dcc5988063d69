"""The part of a recording that `--window` asks for."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pandas as pd

from bubblescope.analyzers.results import Analysis
from bubblescope.errors import UsageError
from bubblescope.report.quantities import duration, parse_duration
from bubblescope.trace.model import Lost

_REQUEST = re.compile(r"request:([0-9]{1,9})", re.ASCII)


@dataclass(frozen=True)
class RequestWindow:
    """From the arrival of a request to its end; `number` counts from 1 as the report does."""

    number: int


@dataclass(frozen=True)
class TimeWindow:
    """Nanoseconds from the beginning of the window that the report shows without `--window`."""

    begin_ns: int
    end_ns: int


@dataclass(frozen=True)
class Resolved:
    """A window on the clock of the recording, what it shows, and what had to be assumed to find it."""

    window_ns: tuple[int, int]
    shows: str
    assumed: tuple[Lost, ...] = ()


def parse_window(text: str) -> RequestWindow | TimeWindow:
    """Read "request:2" or "1.2s:3.4s"; UsageError for anything else."""
    request = _REQUEST.fullmatch(text.strip())
    if request is not None:
        return RequestWindow(int(request[1]))
    begin, colon, end = text.partition(":")
    if not colon:
        raise UsageError(
            f"--window: {text!r} is neither request:N nor BEGIN:END, like request:2 or 1.2s:3.4s"
        )
    window = TimeWindow(parse_duration(begin, "--window"), parse_duration(end, "--window"))
    if window.end_ns <= window.begin_ns:
        raise UsageError(f"--window: {text!r} is empty; its end must be after its begin")
    return window


def resolve(asked: RequestWindow | TimeWindow, whole: Analysis) -> Resolved:
    """Find the asked window in a recording, given the analysis of its whole window.

    Raises UsageError for a request that is not there and for times outside the recording.
    """
    if isinstance(asked, RequestWindow):
        return _of_request(asked.number, whole)
    begin_ns, end_ns = whole.window_ns
    if begin_ns + asked.begin_ns >= end_ns:
        raise UsageError(
            f"--window: it begins at {duration(asked.begin_ns)}, but the recording's window ends at "
            f"{duration(end_ns - begin_ns)}"
        )
    return Resolved((begin_ns + asked.begin_ns, min(begin_ns + asked.end_ns, end_ns)), "as asked for")


def _of_request(number: int, whole: Analysis) -> Resolved:
    table = whole.trace.requests
    measured = table[~table["warmup"]]
    if measured.empty:
        return _of_burst(number, whole)
    _check(number, len(measured), "request")
    row = measured.iloc[number - 1]
    ends = [row["end_ns"], row["first_token_ns"], whole.window_ns[1]]
    begin_ns, end_ns = int(row["arrival_ns"]), int(next(end for end in ends if not pd.isna(end)))
    if end_ns <= begin_ns:
        raise UsageError(f"--window: request {number} has no time of its own in this recording")
    return Resolved((begin_ns, end_ns), f"request {number}")


def _of_burst(number: int, whole: Analysis) -> Resolved:
    """Where no request is recorded a burst of work is the nearest thing to one."""
    if whole.bursts.empty:
        raise UsageError(
            f"--window: request:{number} does not exist; the recording shows no request and no work"
        )
    _check(number, len(whole.bursts), "burst of work (the recording names no requests)")
    row = whole.bursts.iloc[number - 1]
    assumed = f"the recording names none; request:{number} is taken to be burst {number} of its work"
    window_ns = int(row["begin_ns"]), int(row["end_ns"])
    return Resolved(window_ns, f"burst {number}", (Lost("requests", assumed),))


def _check(number: int, there: int, noun: str) -> None:
    if not 1 <= number <= there:
        raise UsageError(
            f"--window: request:{number} does not exist; the first is 1, the last {noun} is {there}"
        )
