"""What a report says, in order, before it takes a form: every form shows the same page.

All text here is fit to be shown: strings from the recording are on one line, without control
characters, and cut where they are long. Escaping for a form is the form's own affair.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from bubblescope.analyzers.results import Analysis, DeviceStates
from bubblescope.report.advice import advice
from bubblescope.report.caveats import caveats
from bubblescope.report.escape import visible
from bubblescope.report.failure import failure
from bubblescope.report.findings import findings
from bubblescope.report.kernels import kernels_of_a_layer
from bubblescope.report.layers import layer_by_layer
from bubblescope.report.losses import untold
from bubblescope.report.quantities import Unit, duration, percent, share
from bubblescope.report.requests import requests
from bubblescope.report.section import Line, Section
from bubblescope.report.verdict import Verdict, verdict
from bubblescope.report.waits import active_ns, count, devices_of, sentence, sentence_case, waits

_ENGINES = {"vllm": "vLLM", "sglang": "SGLang"}
_SOURCES = {
    "recording": "as marked in the recording",
    "flag": "as asked for",
    "device work": "first to last device work",
}
_LONGEST_LIST = 10
#: What is a smaller share of a stage's time is counted, not listed.
_SMALLEST = 0.001
#: The order in which states are shown: work, then waiting, then the ends.
SHOWN_STATES = ("compute", "starved", "blocked", "host", "transfer", "fill", "drain", "idle")


@dataclass(frozen=True)
class Row:
    """A stage or a rank. Empty `states_ns`: the recording shows no work of it.

    timeline: the rows of its device in the timeline table.
    """

    label: str
    device: str
    layers: str
    bubble: str
    states_ns: Mapping[str, int]
    timeline: pd.DataFrame


@dataclass(frozen=True)
class Page:
    """The report's content.

    rows: the stages, or the devices where there is no pipeline.
    ranks: every rank, where a stage has several.
    states: which states occur; the others are nowhere in `rows` and `ranks`.
    offset_ns: where the window begins, counted from `--window`'s zero.
    """

    source: str
    facts: tuple[str, ...]
    verdict: Verdict
    bubble: str | None
    rows: tuple[Row, ...]
    ranks: tuple[Row, ...]
    states: tuple[str, ...]
    unit: Unit
    window_ns: tuple[int, int]
    offset_ns: int
    sections: tuple[Section, ...]

    @property
    def note(self) -> str:
        """What the percentages of `figures` are of."""
        idle = ", idle of the whole window" if "idle" in self.states else ""
        return f"% of the time in which a request was open{idle}"

    def figures(self, row: Row, state: str) -> tuple[str, str]:
        """The row's time in a state, in `unit`, and in percent; "" where there is nothing to say."""
        ns = row.states_ns.get(state)
        if not ns:
            return ("" if ns is None else "0", "")
        begin_ns, end_ns = self.window_ns
        whole = end_ns - begin_ns if state == "idle" else active_ns(row.states_ns)
        return self.unit.number(ns), percent(ns, whole)


def page(analysis: Analysis, source: str, origin_ns: int | None = None, shows: str | None = None) -> Page:
    """The page of an analysis.

    source: what was read, for the title.
    origin_ns: the time from which the page counts; the beginning of the window if None.
    shows: what was asked for, "request 2" say; where the window comes from if None.
    """
    begin_ns, end_ns = analysis.window_ns
    origin = begin_ns if origin_ns is None else origin_ns
    rows = _stage_rows(analysis) if analysis.stages else _rank_rows(analysis)
    several = any(len(stage.devices) > 1 for stage in analysis.stages)
    ranks = _rank_rows(analysis) if several else ()
    lists = (
        failure(analysis),
        advice(analysis),
        _blame(analysis),
        _concurrency(analysis),
        requests(analysis, origin),
        _stragglers(analysis),
        layer_by_layer(analysis),
        kernels_of_a_layer(analysis),
        findings(analysis),
        caveats(analysis),
    )
    return Page(
        source=visible(source),
        facts=_facts(analysis, begin_ns - origin, shows),
        verdict=verdict(analysis),
        bubble=_bubble(analysis),
        rows=rows,
        ranks=ranks,
        states=tuple(
            state for state in SHOWN_STATES if any(row.states_ns.get(state, 0) for row in (*rows, *ranks))
        ),
        unit=Unit.fitting(end_ns - begin_ns),
        window_ns=(begin_ns, end_ns),
        offset_ns=begin_ns - origin,
        sections=tuple(section for section in lists if section is not None),
    )


def _facts(analysis: Analysis, offset_ns: int, shows: str | None) -> tuple[str, ...]:
    run = analysis.trace.run
    engine = _ENGINES.get(run.engine or "", visible(run.engine or "engine unknown", 40))
    if run.engine_version is not None:
        engine += f" {visible(run.engine_version, 40)}"
    shape = [count(len(analysis.stages), "stage")] if analysis.stages else []
    return (engine, *shape, count(len(analysis.devices), "device"), *_window(analysis, offset_ns, shows))


def _window(analysis: Analysis, offset_ns: int, shows: str | None) -> tuple[str, ...]:
    begin_ns, end_ns = analysis.window_ns
    if end_ns <= begin_ns:
        return ()
    where = f", starting at {duration(offset_ns)}" if offset_ns else ""
    what = _SOURCES.get(analysis.window_source, "") if shows is None else shows
    return (f"window {duration(end_ns - begin_ns)}{where} ({what})",)


def _bubble(analysis: Analysis) -> str | None:
    if not analysis.stages or analysis.bubble_ratio is None:
        return None
    if analysis.ideal_bubble_ratio is None:
        beside = "an ideal for it cannot be told"
    else:
        beside = f"a perfectly even pipeline with these microbatches: {share(analysis.ideal_bubble_ratio)}"
    return f"Bubble {share(analysis.bubble_ratio)} of the stages' time ({beside})."


def _stage_rows(analysis: Analysis) -> tuple[Row, ...]:
    timeline = analysis.timeline
    return tuple(
        Row(
            label=f"stage {stage.stage}",
            device=devices_of(analysis, stage),
            layers="?" if stage.layers is None else str(stage.layers),
            bubble=share(stage.bubble_ratio),
            states_ns=stage.states_ns,
            timeline=timeline[timeline["device"] == stage.devices[0]],
        )
        for stage in analysis.stages
    )


def _rank_rows(analysis: Analysis) -> tuple[Row, ...]:
    timeline = analysis.timeline
    return tuple(
        Row(
            label=_rank(analysis, found),
            device=visible(analysis.trace.run.devices[found.device].name or "unknown device", 40),
            layers="",
            bubble="",
            states_ns=found.states_ns,
            timeline=timeline[timeline["device"] == found.device],
        )
        for found in analysis.devices
    )


def _rank(analysis: Analysis, found: DeviceStates) -> str:
    rank = analysis.trace.run.devices[found.device].rank
    return f"device {found.device}" if rank is None else f"rank {rank}"


def _blame(analysis: Analysis) -> Section | None:
    """The longest waits; what is left out is counted."""
    found = waits(analysis)
    if not any(stage.states_ns for stage in analysis.stages):
        return None
    if untold(analysis):
        return Section("Who waited for whom", (Line("Not told: the recording shows no communication."),))
    if not found:
        return Section("Who waited for whom", (Line("No stage waited for another."),))
    shown = [wait for wait in found[:_LONGEST_LIST] if wait.share >= _SMALLEST]
    lines = [Line(sentence(wait)) for wait in shown]
    rest = found[len(shown) :]
    if rest:
        together = duration(sum(wait.ns for wait in rest))
        lines.append(Line(f"{count(len(rest), 'shorter wait')}, together {together}"))
    return Section("Who waited for whom", tuple(lines))


def _concurrency(analysis: Analysis) -> Section | None:
    rows = [row for row in analysis.concurrency.to_dict("records") if row["ns"] > 0]
    if len(analysis.stages) < 2 or not rows:
        return None
    window = sum(row["ns"] for row in rows)
    each = ", ".join(
        f"{count(row['stages'], 'stage') if row['stages'] else 'none'} {share(row['ns'] / window)}"
        for row in rows
    )
    lines = [Line(f"Of the window: {each}")]
    active = sum(active_ns(stage.states_ns) for stage in analysis.stages)
    if active:
        mean = (
            len(analysis.stages)
            * sum(stage.states_ns.get("compute", 0) for stage in analysis.stages)
            / active
        )
        lines.insert(0, Line(f"While a request is open, {mean:.2f} of {len(analysis.stages)} on average"))
    return Section("Stages computing at once", tuple(lines))


def _stragglers(analysis: Analysis) -> Section | None:
    """The largest; what is small beside a stage's time is counted."""
    found = sorted(analysis.stragglers, key=lambda each: -each.excess_ns)
    smallest = _SMALLEST * max((active_ns(stage.states_ns) for stage in analysis.stages), default=0)
    shown = [each for each in found[:_LONGEST_LIST] if each.excess_ns >= smallest]
    lines = [Line(f"{sentence_case(visible(each.text))} (+{duration(each.excess_ns)})") for each in shown]
    rest = found[len(shown) :]
    if rest:
        together = duration(sum(each.excess_ns for each in rest))
        lines.append(Line(f"{count(len(rest), 'smaller one')}, together {together}"))
    return Section("Slower than their peers", tuple(lines)) if shown else None
