"""Times of a device's events are read in the background, whatever becomes of single events.

`torch` is a stand-in: its events have happened at once, and those named "bad" cannot be asked.
"""

from __future__ import annotations

from pathlib import Path

from tests.collectors.programs import recorded

TORCH = """
from types import SimpleNamespace as Some
from _bubblescope_inject.device_time import DeviceClock

class Event:
    def __init__(self, enable_timing=True): self.stream = None
    def record(self, stream): self.stream = stream
    def query(self): return self.stream != "bad" or 1 / 0
    def elapsed_time(self, other): return 0.0

def no_device(device):
    raise RuntimeError("CUDA error: invalid device ordinal")

cuda = Some(Stream=lambda device: None, Event=Event, set_device=lambda device: None)
read = []

def read_all(clock):
    for microbatch, stream in enumerate(["good", "bad", "good", "good"]):
        event = clock.mark(stream)
        clock.read_later(event, event, lambda *_, microbatch=microbatch: read.append(microbatch))
    while len(read) < 3:
        time.sleep(0.01)
    assert read == [0, 2, 3], read
"""


def test_an_event_that_cannot_be_read_is_counted_and_the_others_are_read(tmp_path: Path) -> None:
    process = recorded(TORCH + "read_all(DeviceClock(Some(cuda=cuda), 0))", tmp_path)
    assert process.lost["refused"] == 1


def test_events_are_read_where_the_device_cannot_be_chosen(tmp_path: Path) -> None:
    process = recorded(
        TORCH + "cuda.set_device = no_device\nread_all(DeviceClock(Some(cuda=cuda), 0))", tmp_path
    )
    assert process.lost["refused"] == 2


def test_a_span_tells_how_far_ahead_of_the_device_the_host_was(tmp_path: Path) -> None:
    """The device is done 3 ms after the last launch; in the second span a little before, as clocks go."""
    ended = """
from _bubblescope_inject.device_time import DeviceSpan
import _bubblescope_inject as recorder

class Clock:
    def mark(self, stream=None): return None
    def read_later(self, begin, end, use):
        launched = span._launched_ns
        use(launched - 5_000_000, launched + after)

clock, stage = Clock(), recorder.stage(0, layers=(0, 10))
for after in (3_000_000, -2_000, 70_000_000):
    span = DeviceSpan(clock, stage, "forward", phase="prefill", step=1, microbatch=1, tokens=8, prefix=0)
    span.begin().end()
stage.measured("forward", 1, 2)
"""
    assert recorded(ended, tmp_path).spans["lead"].tolist() == [3_001, 1, 65_535, 0]


def test_a_lead_that_is_none_costs_the_lead_alone(tmp_path: Path) -> None:
    senseless = """
import _bubblescope_inject as recorder
stage = recorder.stage(0, layers=(0, 10))
for lead_ns in (-5_000, 1.5, float("nan"), "long", 2**70):
    stage.measured("forward", 1, 2, lead_ns=lead_ns)
"""
    process = recorded(senseless, tmp_path)
    assert process.spans["lead"].tolist() == [0, 0, 0, 0, 65_535]
    assert process.lost["refused"] == 0
