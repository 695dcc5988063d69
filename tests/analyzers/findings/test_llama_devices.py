"""Devices that hold no layers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.analyzers.findings.recordings import PIPELINED, found, ubatch
from tests.analyzers.spans import Span

FACTS: dict[str, Any] = {
    **PIPELINED,
    "llama_output_device": "FAKE2",
    "llama_device_descriptions": {"FAKE0": "H200", "FAKE1": "H200", "FAKE2": "H200"},
}


def lopsided() -> list[Span]:
    """Of 8 layers, 10 ms each, the first device has 7; 8 ubatches."""
    spans: list[Span] = []
    for number in range(8):
        begin = 1 + 70 * number
        spans += ubatch(number, number, [(begin, begin + 70), (begin + 70, begin + 80)], embed=1)
    return spans


def test_a_device_with_the_output_layer_only_could_hold_layers() -> None:
    finding = found(lopsided(), 2, FACTS, partition=(7, 1))["device-without-layers"]
    # THEN 1 + 8 * 70 + 10 ms would be 1 + 8 * 30 + 30 + 20 with 3, 3 and 2 layers
    assert finding.predicted_gain == pytest.approx(1 - 291 / 571)
    assert finding.ns == pytest.approx(280_000_000, abs=10)
    assert finding.text.startswith("FAKE2 holds no layers")
    assert finding.flag == "-ngl 99 -sm layer -dev FAKE0,FAKE1,FAKE2 -ts 3,3,3"


def test_of_another_kind_of_device_nothing_is_foretold() -> None:
    mixed = {**FACTS, "llama_device_descriptions": {"FAKE0": "H200", "FAKE1": "H200", "FAKE2": "A2"}}
    finding = found(lopsided(), 2, mixed, partition=(7, 1))["device-without-layers"]
    assert (finding.predicted_gain, finding.ns) == (None, 0)


@pytest.mark.parametrize("output", ["FAKE1", "CPU", None])
def test_devices_that_hold_layers_have_no_such_finding(output: str | None) -> None:
    findings = found(lopsided(), 2, {**FACTS, "llama_output_device": output}, partition=(7, 1))
    assert "device-without-layers" not in findings
