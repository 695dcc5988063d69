"""An examination on a terminal and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from bubblescope.doctor.capability import shown
from bubblescope.doctor.cards import Card
from bubblescope.doctor.examination import Examination
from bubblescope.doctor.judgement import Judgement
from bubblescope.doctor.remark import Remark
from bubblescope.report.escape import visible

_INDENT = " " * 10
_VERDICTS = {
    "native": "runs natively on every card",
    "emulated": "runs; cards marked emulated are slower at this: give them fewer layers",
    "unknown": "not known for every card",
    "fails": "does not run",
}


def to_json(examination: Examination) -> str:
    """One object: the verdict, one entry for each part of the rig, and what is said of the launch."""
    return json.dumps(
        {
            "verdict": examination.verdict,
            "engine": examination.engine,
            "engine_version": examination.version,
            "engine_version_assumed": examination.version_assumed,
            "model": examination.model.name,
            "format": examination.model.format,
            "devices": [
                {
                    "device": one.part.device,
                    "count": one.part.count,
                    "verdict": one.verdict,
                    "reason": one.reason,
                    "way_out": one.way_out,
                    "source": one.source,
                    "card": _published(one.part.card),
                }
                for one in examination.devices
            ],
            "remarks": [
                {
                    "verdict": one.verdict,
                    "text": one.text,
                    "way_out": one.way_out,
                    "source": one.source,
                }
                for one in examination.remarks
            ],
        },
        indent=2,
    )


def _published(card: Card | None) -> dict[str, object] | None:
    return None if card is None else {**asdict(card), "capability": shown(card.capability)}


def to_text(examination: Examination) -> str:
    """Lines for people; each statement with its way out and its source below it."""
    return "\n".join(_lines(examination))


def _lines(examination: Examination) -> Iterator[str]:
    yield visible(examination.title)
    yield ""
    for same in _alike(examination.devices):
        yield from _devices(same)
    if examination.remarks:
        yield ""
        for remark in examination.remarks:
            yield from _remark(remark)
    yield ""
    yield f"verdict: {_verdict(examination)}"


def _verdict(examination: Examination) -> str:
    if {one.verdict for one in examination.devices} == {"emulated"} == {examination.verdict}:
        return "runs, emulated on every card: slower than on cards with units for it"
    return _VERDICTS[examination.verdict]


def _alike(devices: Sequence[Judgement]) -> list[list[Judgement]]:
    """Parts of which the same is said, in the order of the rig."""
    groups: dict[tuple[str, ...], list[Judgement]] = {}
    for one in devices:
        groups.setdefault((one.verdict, one.reason, one.way_out, one.source), []).append(one)
    return list(groups.values())


def _devices(same: Sequence[Judgement]) -> Iterator[str]:
    cards = ", ".join(f"{visible(one.part.device)} ×{one.part.count} ({_capability(one)})" for one in same)
    yield f"{same[0].verdict:<8}  {cards}"
    yield f"{_INDENT}{visible(same[0].reason, 400)}"
    yield from _below(same[0].way_out, same[0].source)


def _capability(one: Judgement) -> str:
    return shown(one.part.capability) if one.part.capability else "?"


def _remark(one: Remark) -> Iterator[str]:
    yield f"{one.verdict:<8}  {visible(one.text, 400)}"
    yield from _below(one.way_out, one.source)


def _below(way_out: str, source: str) -> Iterator[str]:
    if way_out:
        yield f"{_INDENT}way out: {way_out}"
    if source:
        yield f"{_INDENT}read in: {source}"
