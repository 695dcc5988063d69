"""The report as one JSON document, for programs."""

from __future__ import annotations

from typing import Any

import orjson

from bubblescope import __version__
from bubblescope.analyzers.results import (
    Analysis,
    DeviceStates,
    Finding,
    Recommendation,
    RequestBreakdown,
    Stage,
    Straggler,
)
from bubblescope.report.counters import extents
from bubblescope.report.failure import explanation
from bubblescope.report.verdict import verdict
from bubblescope.trace.model import Lost

SCHEMA = 1


def to_json(analysis: Analysis) -> bytes:
    """The document as UTF-8, one object and no newline at its end."""
    return orjson.dumps(_unicode(document(analysis)), option=orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY)


def document(analysis: Analysis) -> dict[str, Any]:
    """The document as plain values. Times are nanoseconds on the clock of the recording.

    Its keys are a promise: more may come, none goes or changes its meaning within a schema.
    """
    begin_ns, end_ns = analysis.window_ns
    run, said = analysis.trace.run, verdict(analysis)
    return {
        "schema": SCHEMA,
        "version": __version__,
        "pipeline": analysis.pipeline,
        "window": {"begin_ns": begin_ns, "end_ns": end_ns},
        "window_source": analysis.window_source,
        "engine": run.engine,
        "engine_version": run.engine_version,
        "verdict": {"tone": said.tone, "text": said.text},
        "layers_from": analysis.layers_from,
        "devices": [_device(analysis, each) for each in analysis.devices],
        "stages": [_stage(analysis, each) for each in analysis.stages],
        "bubble_ratio": analysis.bubble_ratio,
        "ideal_bubble_ratio": analysis.ideal_bubble_ratio,
        "blame": _blame(analysis),
        "concurrency": analysis.concurrency.to_dict("records"),
        "layer_times": analysis.layer_times.to_dict("records"),
        "kernel_times": [
            {**row, "layer_ns": _known(row["layer_ns"])} for row in analysis.kernel_times.to_dict("records")
        ],
        "bursts": analysis.bursts.to_dict("records"),
        "requests": [_request(each) for each in analysis.requests],
        "stragglers": [_straggler(each) for each in analysis.stragglers],
        "findings": [_finding(each) for each in analysis.findings],
        "recommendation": _recommendation(analysis.recommendation),
        "failure": explanation(analysis.trace.run.facts),
        "lost": [_lost(each) for each in analysis.lost],
    }


def _device(analysis: Analysis, found: DeviceStates) -> dict[str, Any]:
    device = analysis.trace.run.devices[found.device]
    return {
        "rank": device.rank,
        "host": device.host,
        "device": device.name,
        "stage": found.stage,
        "states_ns": dict(found.states_ns),
        **({"counters": sampled} if (sampled := extents(analysis, found.device)) else {}),
    }


def _stage(analysis: Analysis, stage: Stage) -> dict[str, Any]:
    devices = [analysis.trace.run.devices[number] for number in stage.devices]
    return {
        "stage": stage.stage,
        "device": devices[0].name if devices else None,
        "ranks": [device.rank for device in devices],
        "layers": stage.layers,
        "bubble_ratio": stage.bubble_ratio,
        "states_ns": dict(stage.states_ns),
    }


def _blame(analysis: Analysis) -> list[dict[str, Any]]:
    return [
        {
            "waiting_stage": row["waiting_stage"],
            "culprit_stage": _known(row["culprit_stage"]),
            "cause": row["cause"],
            "ns": row["ns"],
        }
        for row in analysis.blame.to_dict("records")
    ]


def _request(request: RequestBreakdown) -> dict[str, Any]:
    return {
        "request": request.request,
        "arrival_ns": request.arrival_ns,
        "ttft_ns": request.ttft_ns,
        "prompt_tokens": _known(request.prompt_tokens),
        "breakdown_ns": dict(request.breakdown_ns),
    }


def _straggler(straggler: Straggler) -> dict[str, Any]:
    return {
        "kind": straggler.kind,
        "stage": straggler.stage,
        "microbatch": straggler.microbatch,
        "excess_ns": straggler.excess_ns,
        "text": straggler.text,
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "id": finding.id,
        "ns": finding.ns,
        "stage": finding.stage,
        "text": finding.text,
        "flag": finding.flag,
        "predicted_gain": finding.predicted_gain,
    }


def _recommendation(found: Recommendation) -> dict[str, Any]:
    return {
        "partition": found.partition,
        "reason": found.reason,
        "makespan_ns": found.makespan_ns,
        "predicted_makespan_ns": found.predicted_makespan_ns,
        "predicted_range_ns": found.predicted_range_ns,
        "ttft_ns": found.ttft_ns,
        "predicted_ttft_ns": found.predicted_ttft_ns,
        "error": found.error,
        "words": found.words,
        "remarks": found.remarks,
    }


def _lost(lost: Lost) -> dict[str, Any]:
    return {"what": lost.what, "count": lost.count, "why": lost.why, "damage": lost.damage}


def _known(number: int) -> int | None:
    """Tables say -1 where a program is to read null."""
    return number if number >= 0 else None


def _unicode(value: Any) -> Any:
    """Replace lone surrogates (odd bytes in a file's name, say): they cannot be written as UTF-8."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, list):
        return [_unicode(each) for each in value]
    if isinstance(value, dict):
        return {name: _unicode(each) for name, each in value.items()}
    return value
