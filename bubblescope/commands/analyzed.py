"""What the commands that look at a recording have in common: its options, reading, analysis, status."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from bubblescope.commands.file_name import FileName
from bubblescope.errors import DAMAGED, UsageError

# What needs pandas or rich is imported where it is used, so that `--help` and a wrong option
# answer at once.
if TYPE_CHECKING:
    from bubblescope.analyzers.results import Analysis, Options
    from bubblescope.report.page import Page
    from bubblescope.report.window import RequestWindow, TimeWindow
    from bubblescope.trace.model import Trace

_PARTITION = re.compile(r"[0-9]{1,5}(,[0-9]{1,5}){0,1023}", re.ASCII)

_PARAMETERS = (
    click.argument("path", type=FileName(), metavar="TRACE"),
    click.option(
        "--window",
        metavar="WINDOW",
        help="Look at a part only. request:N is the request with that number in the report, from 1 (where no "
        "request is recorded, the burst of work). BEGIN:END, like 1.2s:3.4s or 250ms:900ms, counts from the "
        "beginning of the window that the report shows without this option. Units: ns, us, ms, s.",
    ),
    click.option(
        "--partition",
        metavar="LAYERS",
        help="Layers per stage in order of stages, like 27,9, where the recording does not tell.",
    ),
    click.option(
        "--idle-gap",
        metavar="TIME",
        default="10ms",
        show_default=True,
        help="Where no request is recorded, a time longer than this with every device quiet is idle.",
    ),
)


@dataclass(frozen=True)
class Analyzed:
    """The analysis of what the command line named, and the page that says it."""

    analysis: Analysis
    page: Page


def trace_parameters(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command TRACE and the options of `analyzed`, under the names of its arguments."""
    for parameter in reversed(_PARAMETERS):
        command = parameter(command)
    return command


def analyzed(path: str, window: str | None, partition: str | None, idle_gap: str) -> Analyzed:
    """Read the recording and analyze it."""
    from bubblescope.analyzers.results import Options
    from bubblescope.report.page import page
    from bubblescope.report.quantities import parse_duration
    from bubblescope.report.window import parse_window

    # Before anything is read: a typing error should cost no wait.
    asked = None if window is None else parse_window(window)
    options = Options(partition=_partition(partition), idle_gap_ns=parse_duration(idle_gap, "--idle-gap"))
    analysis, origin_ns, shows = _analyzed(_read(path), options, asked)
    return Analyzed(analysis, page(analysis, os.path.basename(os.path.abspath(path)), origin_ns, shows))


def _partition(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    layers = tuple(map(int, text.split(","))) if _PARTITION.fullmatch(text) else ()
    if not layers or min(layers) < 1:
        raise UsageError(f"--partition: {text!r} is not a list of layers per stage; write it like 27,9")
    return layers


def _read(path: str) -> Trace:
    from bubblescope.report.progress import reading
    from bubblescope.trace.read import read_trace

    with reading() as progress:
        return read_trace(path, progress)


def _analyzed(
    trace: Trace, options: Options, asked: RequestWindow | TimeWindow | None
) -> tuple[Analysis, int, str | None]:
    """The analysis, the time from which its page counts (the beginning of the whole window), and what
    was asked for, in words."""
    from bubblescope.analyzers.analysis import analyze
    from bubblescope.report.window import resolve

    whole = analyze(trace, options)
    _check_partition(options.partition, whole)
    if asked is None:
        return whole, whole.window_ns[0], None
    resolved = resolve(asked, whole)
    part = analyze(trace, replace(options, window_ns=resolved.window_ns))
    return replace(part, lost=(*resolved.assumed, *part.lost)), whole.window_ns[0], resolved.shows


def _check_partition(partition: tuple[int, ...] | None, analysis: Analysis) -> None:
    if partition is None or len(partition) == len(analysis.stages):
        return
    here = len(analysis.stages) or "no pipeline"
    from bubblescope.report.waits import count

    named = count(len(partition), "stage")
    raise UsageError(f"--partition: it names {named}, but the recording shows {here}")


def status(analysis: Analysis) -> int:
    """0, or the status for damage, with a line that says what was damaged."""
    damaged = [lost for lost in analysis.lost if lost.damage]
    if not damaged:
        return 0
    from bubblescope.report.caveats import loss

    more = f" (and {len(damaged) - 1} more)" if len(damaged) > 1 else ""
    click.echo(f"bubblescope: {loss(damaged[0])}{more}; the rest is reported", err=True)
    return DAMAGED
