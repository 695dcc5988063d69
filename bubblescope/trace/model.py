"""What a recording is: the run table and five frames, checked where they enter.

All times are int64 nanoseconds on one clock. A device's position in `Run.devices` is its number
in every table; `rank` and `stage` are the engine's own numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from bubblescope.trace import frames
from bubblescope.trace.frames import (
    COUNTERS,
    REQUESTS,
    SLICES,
    SPANS,
    TIME_LIMIT,
    TRACKS,
    UNKNOWN,
    SchemaError,
)


@dataclass(frozen=True)
class Device:
    """One device that took part; None where the recording does not tell.

    rank: the engine's rank of the process that drives it.
    stage: its position in the pipeline, if the recording names it.
    ordinal: the device's number on its host.
    name: as the vendor writes it, for example "NVIDIA H200".
    capability: CUDA compute capability, for example "9.0".
    """

    rank: int | None = None
    stage: int | None = None
    ordinal: int | None = None
    name: str | None = None
    host: str | None = None
    capability: str | None = None
    memory_bytes: int | None = None


def card_uuids(facts: Mapping[str, Any], devices: Sequence[Device]) -> dict[int, str]:
    """The UUID of each device's card, by the device's position, where the facts "uuid:STAGE:RANK" tell it."""
    found = {}
    for position, device in enumerate(devices):
        uuid = facts.get(f"uuid:{device.stage}:{UNKNOWN if device.rank is None else device.rank}")
        if isinstance(uuid, str):
            found[position] = uuid
    return found


@dataclass(frozen=True)
class Group:
    """A process group: its name in the slices table and its member ranks."""

    name: str
    description: str
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Clock:
    """How the times of several processes were brought onto one clock.

    aligned: False where they could not be; nothing between devices is then to be believed.
    uncertainty_ns: how far two devices may be apart; None where unknown.
    how: in words, for the reader.
    """

    aligned: bool = True
    uncertainty_ns: int | None = None
    how: str = "one clock"


@dataclass(frozen=True)
class Lost:
    """Something that the recording does not hold or that could not be used.

    damage: bytes or events of the input could not be read (exit status 4).
    """

    what: str
    why: str
    count: int | None = None
    damage: bool = False


@dataclass(frozen=True)
class Run:
    """Facts about the recording as a whole.

    partition: layers per stage, as the recording tells it.
    model: facts from the model's config (layers, hidden size, ...), JSON values only.
    facts: other facts a collector wrote down (chunk size, batches in flight, ...), JSON values only.
    world_size: how many ranks took part, of which some may not be in this recording.
    window_ns: the measured part, begin and end, where the recording marks one.
    """

    devices: tuple[Device, ...] = ()
    engine: str | None = None
    engine_version: str | None = None
    command: tuple[str, ...] = ()
    model: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    partition: tuple[int, ...] | None = None
    world_size: int | None = None
    groups: tuple[Group, ...] = ()
    window_ns: tuple[int, int] | None = None
    clock: Clock = field(default_factory=Clock)
    lost: tuple[Lost, ...] = ()


@dataclass(frozen=True)
class Trace:
    """A recording. The schemas of the frames stand in `bubblescope.trace.frames`."""

    run: Run
    tracks: pd.DataFrame = field(default_factory=lambda: frames.empty(TRACKS))
    slices: pd.DataFrame = field(default_factory=lambda: frames.empty(SLICES))
    spans: pd.DataFrame = field(default_factory=lambda: frames.empty(SPANS))
    requests: pd.DataFrame = field(default_factory=lambda: frames.empty(REQUESTS))
    counters: pd.DataFrame = field(default_factory=lambda: frames.empty(COUNTERS))

    def __post_init__(self) -> None:
        for schema in (TRACKS, SLICES, SPANS, REQUESTS, COUNTERS):
            object.__setattr__(self, schema.name, frames.checked(schema, getattr(self, schema.name)))
        if any(abs(time) > TIME_LIMIT for time in self.run.window_ns or ()):
            raise SchemaError("window_ns: a time further than 73 years from 0")
        _within(self.slices["track"], len(self.tracks), "slices.track")
        for frame in ("tracks", "spans", "counters"):
            _within(getattr(self, frame)["device"], len(self.run.devices), f"{frame}.device")

    def with_lost(self, *lost: Lost) -> Trace:
        """The same recording with more said about what it lacks."""
        return replace(self, run=replace(self.run, lost=(*self.run.lost, *lost)))


def _within(column: pd.Series[int], count: int, name: str) -> None:
    values = np.asarray(column)
    if len(values) and (values.min() < 0 or values.max() >= count):
        raise SchemaError(f"{name}: refers to a row that is not there")
