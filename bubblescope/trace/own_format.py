"""Our own file's parts, as written and as read. docs/trace-format.md describes the file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

from bubblescope.trace.frames import UNKNOWN
from bubblescope.trace.model import Run

#: The top-level key that makes a Chrome trace ours, and the version of what stands under it.
KEY = "bubblescope"
SCHEMA = 1

SPAN_CATEGORY = "span"
REQUEST_CATEGORY = "request"

Int32 = Annotated[int, msgspec.Meta(ge=-(1 << 31), lt=1 << 31)]
#: Without the smallest int64, which stands for a missing time while reading.
Int64 = Annotated[int, msgspec.Meta(ge=1 - (1 << 63), le=(1 << 63) - 1)]


class Version(msgspec.Struct):
    """What can be read of the header whatever its version."""

    schema: int


class Tracks(msgspec.Struct):
    """The tracks table, column by column."""

    device: list[Int32]
    process: list[str]
    lane: list[str]
    kind: list[str]


class Header(msgspec.Struct):
    """What stands under KEY: everything that is no event, and how many rows each table has."""

    schema: int
    run: Run
    tracks: Tracks
    rows: Mapping[str, int]


class SliceArguments(msgspec.Struct, gc=False):
    """A slice beside its name and category; its track is the event's tid."""

    begin_ns: Int64
    end_ns: Int64
    correlation: Int64 = UNKNOWN
    operation: str = ""
    group: str = ""
    peer: Int32 = UNKNOWN
    bytes: Int64 = UNKNOWN
    microbatch: Int64 = UNKNOWN
    span: str = ""


class SpanArguments(msgspec.Struct, gc=False):
    """A span, whole."""

    stage: Int32
    device: Int32
    step: Int64
    microbatch: Int64
    kind: str
    phase: str
    tokens: Int64
    prefix: Int64
    layer_begin: Int32
    layer_end: Int32
    peer: Int32
    bytes: Int64
    begin_ns: Int64
    end_ns: Int64
    clock: str
    lead_ns: Int64 = UNKNOWN


class RequestArguments(msgspec.Struct, gc=False):
    """A request beside its identity, which is the event's name."""

    arrival_ns: Int64
    first_token_ns: Int64 | None
    end_ns: Int64 | None
    prompt_tokens: Int64
    output_tokens: Int64
    warmup: bool


class CounterArguments(msgspec.Struct, gc=False):
    """A sample; JSON has no numbers for the values written as words."""

    value: float | Literal["nan", "inf", "-inf"]
