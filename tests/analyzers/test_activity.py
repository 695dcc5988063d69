"""What counts as a device's own work."""

from __future__ import annotations

from bubblescope.analyzers.activity import activities
from tests.analyzers.spans import Span, recording


def test_the_host_s_spans_are_no_work_of_a_device_that_has_times_of_its_own() -> None:
    # GIVEN a device computing from 50 to 80, and a host that embeds from 0 to 20 and samples from 90 to 95
    spans = [
        Span("embed", 0, 0, 20),
        Span("forward", 0, 50, 80, clock="device"),
        Span("send", 0, 80, 85, clock="device"),
        Span("sample", 0, 90, 95),
    ]
    (device,) = activities(recording(spans, 1, {}))
    # THEN the device computed for 30 and worked until 85
    assert device.compute.tolist() == [[50, 80]]
    assert device.work.tolist() == [[50, 85]]


def test_where_all_times_are_the_host_s_its_spans_are_the_work() -> None:
    spans = [Span("embed", 0, 0, 20), Span("forward", 0, 20, 60), Span("sample", 0, 60, 65)]
    (device,) = activities(recording(spans, 1, {}))
    assert device.compute.tolist() == [[0, 65]]


def test_times_of_one_device_say_nothing_of_another_s() -> None:
    spans = [
        Span("embed", 0, 0, 10),
        Span("forward", 0, 20, 30, clock="device"),
        Span("forward", 1, 30, 50),
    ]
    first, second = activities(recording(spans, 2, {}))
    assert first.compute.tolist() == [[20, 30]]
    assert second.compute.tolist() == [[30, 50]]
