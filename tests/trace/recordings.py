"""Random recordings, for what must hold of all of them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from bubblescope.trace import frames
from bubblescope.trace.frames import (
    COUNTERS,
    REQUESTS,
    SLICES,
    SPANS,
    TIME_LIMIT,
    TRACKS,
    Schema,
)
from bubblescope.trace.model import Clock, Device, Group, Lost, Run, Trace

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(1 - (1 << 63), (1 << 63) - 1)
#: Times like those of today in nanoseconds, small ones, and the ends of what is possible.
TIMES = st.one_of(
    st.integers((1 << 60) - 1000, (1 << 60) + 1000), st.integers(0, 100), st.integers(-TIME_LIMIT, TIME_LIMIT)
)
#: Any text, but for what redaction takes out of a text.
TEXTS = st.text(alphabet=st.characters(exclude_categories=("Cs",), exclude_characters="=:/@-_"), max_size=12)
NAMES = TEXTS.filter(lambda text: "bearer" not in text.lower())
OPTIONAL = st.none() | st.integers(0, 100)
FACTS = st.dictionaries(
    st.sampled_from(["layers", "hidden_size", "ünïcode", "nested", "chunk"]),
    st.recursive(
        st.none() | st.booleans() | INT64 | st.floats(allow_nan=False, allow_infinity=False) | NAMES,
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2)
        ),
        max_leaves=5,
    ),
    max_size=4,
)

DEVICES = st.builds(
    Device, rank=OPTIONAL, stage=OPTIONAL, ordinal=OPTIONAL, name=st.none() | NAMES,
    host=st.none() | st.just("host0"), capability=st.none() | st.just("9.0"),
    memory_bytes=st.none() | st.integers(0, 1 << 40),
)  # fmt: skip


@st.composite
def intervals(draw: st.DrawFn) -> tuple[int, int]:
    begin, end = sorted((draw(TIMES), draw(TIMES)))
    return begin, end


@st.composite
def tables(draw: st.DrawFn, schema: Schema, given_columns: dict[str, st.SearchStrategy[Any]]) -> Any:
    rows = draw(st.integers(0, 4))
    kinds: dict[Any, st.SearchStrategy[Any]] = {
        "int32": INT32, "int64": INT64, "time": TIMES, "time?": st.none() | TIMES, "text": NAMES,
        "bool": st.booleans(), "float64": st.floats(),
    }  # fmt: skip
    columns: dict[str, Any] = {}
    for name, kind in schema.columns.items():
        usual = st.sampled_from(kind) if isinstance(kind, tuple) else kinds[kind]
        values = given_columns.get(name, usual)
        columns[name] = draw(st.lists(values, min_size=rows, max_size=rows))
    if schema.intervals:
        pairs = draw(st.lists(intervals(), min_size=rows, max_size=rows))
        columns["begin_ns"], columns["end_ns"] = [a for a, _ in pairs], [b for _, b in pairs]
    return frames.table(schema, columns)


@st.composite
def runs(draw: st.DrawFn, devices: int) -> Run:
    return Run(
        devices=tuple(draw(st.lists(DEVICES, min_size=devices, max_size=devices))),
        engine=draw(st.none() | st.just("vllm")),
        engine_version=draw(st.none() | NAMES),
        command=tuple(draw(st.lists(NAMES, max_size=3))),
        model=draw(FACTS),
        facts=draw(FACTS),
        partition=draw(st.none() | st.tuples(st.integers(1, 99), st.integers(1, 99))),
        world_size=draw(OPTIONAL),
        groups=tuple(draw(st.lists(st.builds(Group, NAMES, NAMES, st.tuples(INT32, INT32)), max_size=2))),
        window_ns=draw(st.none() | intervals()),
        clock=draw(st.builds(Clock, st.booleans(), st.none() | INT64, NAMES)),
        lost=tuple(draw(st.lists(st.builds(Lost, NAMES, NAMES, OPTIONAL, st.booleans()), max_size=2))),
    )


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """A recording of two devices and two tracks with a few rows in every table, or in none."""
    device = {"device": st.integers(0, 1)}
    tracks = frames.table(
        TRACKS,
        {
            "device": [0, 1],
            "process": [draw(NAMES), ""],
            "lane": ["a", draw(NAMES)],
            "kind": ["stream", "thread"],
        },
    )
    return Trace(
        draw(runs(2)),
        tracks=tracks,
        slices=draw(tables(SLICES, {"track": st.integers(0, 1)})),
        spans=draw(tables(SPANS, device)),
        requests=draw(tables(REQUESTS, {})),
        counters=draw(tables(COUNTERS, device)),
    )
