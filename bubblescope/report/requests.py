"""The measured requests and where their time to first token went."""

from __future__ import annotations

import re

from bubblescope.analyzers.results import Analysis, RequestBreakdown
from bubblescope.report.escape import visible, visible_end
from bubblescope.report.quantities import Unit, duration, share
from bubblescope.report.section import Line, Section, Table

_MOST = 10
_PARTS = {
    "queue": "queue",
    "host": "host",
    "state": "saving or restoring KV cache",
    "transfer": "transfer",
    "bubble": "bubble",
    "outside": "outside the devices",
}
_COMPUTE = re.compile(r"compute_stage_([0-9]+)")
#: Smaller parts of a TTFT than this are not shown.
_SMALLEST = 0.005


def requests(analysis: Analysis, origin_ns: int) -> Section | None:
    """The slowest requests in order of arrival, or the bursts of work where no request is known."""
    if not analysis.requests:
        return _bursts(analysis, origin_ns)
    numbers = request_numbers(analysis)
    shown = slowest(analysis, _MOST)
    unit = Unit.fitting(analysis.window_ns[1] - origin_ns)
    figures = (f"arrival {unit.name}", "prompt", f"TTFT {unit.name}", "tokens/s")
    rows = [_row(each, numbers, unit, origin_ns) for each in shown]
    header: tuple[str, ...] = ("#", "request", *figures, "where the TTFT went")
    if all(_only_counts(each, numbers) for each in shown):
        header, rows = ("#", *header[2:]), [(row[0], *row[2:]) for row in rows]
    table = Table(header, tuple(rows), frozenset({"#", *figures}))
    return Section("Requests", _summary(analysis.requests), table)


def slowest(analysis: Analysis, most: int) -> list[RequestBreakdown]:
    """So many of the measured requests, in order of arrival."""
    return sorted(sorted(analysis.requests, key=_slowness)[:most], key=lambda each: each.arrival_ns)


def request_numbers(analysis: Analysis) -> dict[tuple[str, int], int]:
    """The number of each measured request, from 1 in order of arrival, by its name and arrival."""
    table = analysis.trace.requests
    measured = table[~table["warmup"]]
    keys = zip(measured["request"].astype(str), measured["arrival_ns"], strict=True)
    return {(name, int(arrival)): number for number, (name, arrival) in enumerate(keys, start=1)}


def _only_counts(request: RequestBreakdown, numbers: dict[tuple[str, int], int]) -> bool:
    """Whether the name, as the load generator gives it, says no more than the number."""
    return request.request == f"bubblescope-request-{numbers.get((request.request, request.arrival_ns))}"


def _slowness(request: RequestBreakdown) -> float:
    """Slowest first; one that never got its first token is the slowest of all."""
    return float("-inf") if request.ttft_ns is None else -request.ttft_ns


def _row(
    request: RequestBreakdown, numbers: dict[tuple[str, int], int], unit: Unit, origin_ns: int
) -> tuple[str, ...]:
    number = numbers.get((request.request, request.arrival_ns))
    return (
        "?" if number is None else str(number),
        visible_end(request.request, 16),
        unit.number(request.arrival_ns - origin_ns),
        str(request.prompt_tokens) if request.prompt_tokens >= 0 else "?",
        "none" if request.ttft_ns is None else unit.number(request.ttft_ns),
        _speed(request),
        _breakdown(request),
    )


def _speed(request: RequestBreakdown) -> str:
    """Prefill as its users compare it: prompt tokens per second of TTFT."""
    if not request.ttft_ns or request.prompt_tokens < 0:
        return "?"
    return f"{request.prompt_tokens * 1e9 / request.ttft_ns:.0f}"


def _breakdown(request: RequestBreakdown) -> str:
    if request.ttft_ns is None:
        return "no first token in the recording"
    whole = max(request.ttft_ns, 1)
    parts = sorted(((ns / whole, _part(name)) for name, ns in request.breakdown_ns.items()), reverse=True)
    said = [f"{name} {share(ratio)}" for ratio, name in parts if ratio >= _SMALLEST]
    return ", ".join(said) if said else "cannot be told"


def _part(name: str) -> str:
    stage = _COMPUTE.fullmatch(name)
    return f"compute on stage {stage[1]}" if stage else _PARTS.get(name, visible(name, 40))


def _summary(every: tuple[RequestBreakdown, ...]) -> tuple[Line, ...]:
    if len(every) <= _MOST:
        return ()
    known = sorted(each.ttft_ns for each in every if each.ttft_ns is not None)
    median = f"; median TTFT {duration(known[len(known) // 2])}" if known else ""
    return (Line(f"The {_MOST} slowest of {len(every)} requests{median}"),)


def _bursts(analysis: Analysis, origin_ns: int) -> Section | None:
    unit = Unit.fitting(analysis.window_ns[1] - origin_ns)
    rows = analysis.bursts.to_dict("records")
    if len(rows) < 2:
        return None
    table = Table(
        header=("#", f"begin {unit.name}", f"end {unit.name}", f"lasts {unit.name}"),
        rows=tuple(
            (
                str(number),
                unit.number(row["begin_ns"] - origin_ns),
                unit.number(row["end_ns"] - origin_ns),
                unit.number(row["end_ns"] - row["begin_ns"]),
            )
            for number, row in enumerate(rows[:_MOST], start=1)
        ),
        numbers=frozenset({"#", f"begin {unit.name}", f"end {unit.name}", f"lasts {unit.name}"}),
    )
    more = len(rows) - _MOST
    lines = [Line(f"The first {_MOST} of {len(rows)} bursts")] if more > 0 else []
    lines.append(Line("The second alone:", "--window request:2"))
    return Section("Bursts of work (no request is recorded)", tuple(lines), table)
