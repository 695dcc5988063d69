"""Counters of the devices, in the report for programs and on the page."""

from __future__ import annotations

import re
from dataclasses import replace

from bubblescope.analyzers.results import Analysis
from bubblescope.report.counters import SHOWN
from bubblescope.report.document import document
from bubblescope.report.html.counters import counter_strips
from bubblescope.report.html.document import to_html
from bubblescope.report.html.timeline import lanes
from bubblescope.report.page import page
from bubblescope.trace.frames import COUNTERS, table
from bubblescope.trace.model import Trace
from tests.report.analyses import BEGIN_NS, MS, analysis

Sample = tuple[int, str, int, float]


def sampled(*samples: Sample) -> Analysis:
    """Two stages of 100 ms, with these samples: device, name, milliseconds, value."""
    found = analysis([[("compute", 100)], [("compute", 100)]])
    columns = {
        "device": [device for device, _, _, _ in samples],
        "name": [name for _, name, _, _ in samples],
        "time_ns": [BEGIN_NS + ms * MS for _, _, ms, _ in samples],
        "value": [value for _, _, _, value in samples],
    }
    return replace(found, trace=Trace(found.trace.run, counters=table(COUNTERS, columns)))


def test_programs_get_the_extent_of_each_counter_in_the_window() -> None:
    found = sampled(
        (0, "sm_clock_mhz", 10, 1000), (0, "sm_clock_mhz", 20, 2000), (0, "sm_clock_mhz", 30, 1200),
        (0, "sm_clock_mhz", 100, 9), (0, "sm_clock_mhz", -1, 9), (0, "power_w", 5, float("nan")),
        (1, "power_w", 5, 300.5),
    )  # fmt: skip
    first, second = document(found)["devices"]
    assert first["counters"] == {"sm_clock_mhz": {"samples": 3, "min": 1000, "mean": 1400, "max": 2000}}
    assert second["counters"] == {"power_w": {"samples": 1, "min": 300.5, "mean": 300.5, "max": 300.5}}


def strips(*samples: Sample) -> list[tuple[str, ...]]:
    """What is said of each strip, its points and its figure."""
    found = sampled(*samples)
    drawn = counter_strips(found, lanes(found, page(found, "x")))
    return re.findall(r'aria-label="([^"]*)"><polyline points="([^"]*)"', drawn or "")


def test_the_page_shows_a_strip_per_stage_and_counter() -> None:
    # GIVEN 1000 MHz in the middle of the first half of 100 ms, 2000 in that of the second
    found = strips((0, "sm_clock_mhz", 25, 1000), (0, "sm_clock_mhz", 75, 2000), (1, "temperature_c", 50, 71))
    # THEN parts 60 and 180 of 240 are at 252 and 752 of 1000, at the bottom and at the top
    assert found == [
        ("stage 0, SM clock: 1000–2000 MHz", "252,22.0 752,2.0"),
        ("stage 1, temperature: 71 °C", "0,12.0 1000,12.0"),
    ]


def test_samples_closer_than_can_be_seen_are_drawn_as_their_mean() -> None:
    samples = [(0, "power_w", 0, 100.0), (0, "power_w", 0, 300.0), (0, "power_w", 50, 300.0)]
    assert strips(*samples) == [("stage 0, power: 100–300 W", "2,12.0 502,2.0")]


def test_traffic_is_shown_where_there_is_any() -> None:
    found = strips((0, "nvlink_tx_bytes_per_s", 5, 2.5e9), (0, "pcie_tx_bytes_per_s", 5, 0.0))
    assert [label for label, _ in found] == ["stage 0, sent over NVLink: 2.5 GB/s"]


def test_without_samples_there_is_no_such_section() -> None:
    assert strips() == []
    assert strips((0, "sm_clock_mhz", 100, 1000), (0, "a counter of its own", 5, 1)) == []
    found = sampled()
    assert b"Clocks, power, temperature" not in to_html(found, page(found, "x"))


def test_many_strips_share_the_points_of_a_page() -> None:
    samples = [(0, name, ms, float(ms % 7 + 1)) for name in SHOWN for ms in range(100)]
    assert all(len(points.split()) <= 240 for _, points in strips(*samples))
    found = sampled(*samples)
    assert b"Clocks, power, temperature" in to_html(found, page(found, "x"))
