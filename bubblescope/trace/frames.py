"""The tables of a trace: their columns, dtypes and the check at the seam.

Times are int64 nanoseconds on one clock. Text columns are categoricals. `UNKNOWN` (-1) stands
for a number that the recording does not tell; it never stands for a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

UNKNOWN = -1
#: Times lie within this many nanoseconds of 0 (73 years), so that differences and sums of two fit.
TIME_LIMIT = 1 << 61

#: How a column is stored. "time" is int64 nanoseconds; "time?" the same with missing values
#: (pandas Int64); "text" an open categorical; a tuple a closed one.
Kind = str | tuple[str, ...]

SPAN_KINDS = (
    "forward", "embed", "head", "sample", "recv", "send", "copy", "split", "schedule", "sync", "layer",
    "attention", "save", "restore",
)  # fmt: skip
PHASES = ("prefill", "decode", "mixed", "unknown")
TRACK_KINDS = ("stream", "thread")
CLOCKS = ("device", "host")
CATEGORIES = ("kernel", "copy", "memset", "device_range", "host_range", "host_op", "other")


@dataclass(frozen=True)
class Schema:
    """Name and columns of one table.

    intervals: it has `begin_ns` and `end_ns`. defaults: what columns hold that need not be given.
    """

    name: str
    columns: Mapping[str, Kind]
    intervals: bool = False
    defaults: Mapping[str, Any] = field(default_factory=dict)


#: One lane of a timeline: a stream of a device, or a thread of the process that drives it.
#: `device` is the position in `Run.devices`.
TRACKS = Schema(
    "tracks",
    {"device": "int32", "process": "text", "lane": "text", "kind": TRACK_KINDS},
)

#: Everything with a begin and an end. `track` is the row number in the tracks table.
#: `operation` is "" where the slice moves nothing between ranks, else "send", "recv", or the
#: collective's name in lower case ("broadcast", "allreduce", ...; "unknown" where the recording
#: shows a communication kernel and not which). `group` names the process group; `peer` is the
#: other rank of a send or receive as the engine numbers ranks; `bytes` is the message's size.
#: `microbatch` and `span` (one of SPAN_KINDS) name the span of the device's stage that launched it,
#: where the recording tells.
SLICES = Schema(
    "slices",
    {
        "track": "int32",
        "name": "text",
        "category": CATEGORIES,
        "begin_ns": "time",
        "end_ns": "time",
        "correlation": "int64",
        "operation": "text",
        "group": "text",
        "peer": "int32",
        "bytes": "int64",
        "microbatch": "int64",
        "span": "text",
    },
    intervals=True,
    defaults={"microbatch": UNKNOWN, "span": ""},
)

#: One piece of work of one stage on one microbatch. `device` is the position in `Run.devices`;
#: `peer` the other stage of a recv, send or copy. A recv begins when the stage asks for its input, where that
#: is known. Layers are half open. `clock` says where the times were taken. `lead_ns` is how long before its
#: end on the device the host had launched the last of it (65.5 ms where it was longer). A `layer` is one
#: layer of a forward, an `attention` the attention of one: they lie within the forward's own span, whose time
#: is theirs. A `save` brings the state of a sequence (its KV cache) from the devices into host memory, making
#: room there included, a `restore` brings one back; both are of no microbatch.
SPANS = Schema(
    "spans",
    {
        "stage": "int32",
        "device": "int32",
        "step": "int64",
        "microbatch": "int64",
        "kind": SPAN_KINDS,
        "phase": PHASES,
        "tokens": "int64",
        "prefix": "int64",
        "layer_begin": "int32",
        "layer_end": "int32",
        "peer": "int32",
        "bytes": "int64",
        "begin_ns": "time",
        "end_ns": "time",
        "clock": CLOCKS,
        "lead_ns": "int64",
    },
    intervals=True,
    defaults={"lead_ns": UNKNOWN},
)

#: One row per request, in order of arrival. `warmup` requests are shown in no total.
REQUESTS = Schema(
    "requests",
    {
        "request": "text",
        "arrival_ns": "time",
        "first_token_ns": "time?",
        "end_ns": "time?",
        "prompt_tokens": "int64",
        "output_tokens": "int64",
        "warmup": "bool",
    },
)

#: Samples of a device (NVML). `name` carries its unit, for example "sm_clock_mhz".
COUNTERS = Schema(
    "counters",
    {"device": "int32", "name": "text", "time_ns": "time", "value": "float64"},
)


class SchemaError(ValueError):
    """A table does not have the columns or values that its schema asks for."""


def table(schema: Schema, columns: Mapping[str, Sequence[Any] | np.ndarray[Any, Any]]) -> pd.DataFrame:
    """Build a checked table from columns in any order; a missing column without a default is an error."""
    given = {
        name: kind for name, kind in schema.columns.items() if name not in schema.defaults or name in columns
    }
    frame = pd.DataFrame({name: _column(kind, columns[name]) for name, kind in given.items()})
    return checked(schema, frame)


def empty(schema: Schema) -> pd.DataFrame:
    """The table with no rows."""
    return table(schema, {name: [] for name in schema.columns})


def checked(schema: Schema, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame in the schema's column order and dtypes, or raise SchemaError.

    Text columns come back with sorted categories and none unused, so that equal tables compare
    equal whatever way they were built.
    """
    missing = {name: schema.defaults[name] for name in schema.defaults.keys() - set(frame.columns)}
    frame = frame.assign(**missing) if missing else frame
    if set(frame.columns) != set(schema.columns):
        wrong = sorted(set(frame.columns) ^ set(schema.columns))
        raise SchemaError(f"{schema.name}: columns missing or not known: {', '.join(map(str, wrong))}")
    out = pd.DataFrame(
        {name: _column(kind, frame[name]) for name, kind in schema.columns.items()}
    ).reset_index(drop=True)
    if schema.intervals and bool((out["end_ns"] < out["begin_ns"]).any()):
        raise SchemaError(f"{schema.name}: a row ends before it begins")
    return out


def _column(kind: Kind, values: Any) -> Any:
    if isinstance(kind, tuple):
        named = values if isinstance(values, pd.Categorical) else pd.Categorical(values)
        if bool((named.codes < 0).any()) or not set(named.remove_unused_categories().categories) <= set(kind):
            raise SchemaError(f"values outside {kind}")
        return named.set_categories(list(kind))
    if kind == "text":
        column = values if isinstance(values, pd.Categorical) else pd.Categorical(values)
        column = column.remove_unused_categories()
        return column.reorder_categories(sorted(column.categories))
    if kind == "time?":
        known = pd.array(values, dtype="Int64")
        _within_limit(np.asarray(known[~known.isna()], dtype="int64"))
        return known
    numbers = _numbers("int64" if kind == "time" else kind, values)
    if kind == "time":
        _within_limit(numbers)
    return numbers


def _within_limit(times: np.ndarray[Any, Any]) -> None:
    if len(times) and (times.min() < -TIME_LIMIT or times.max() > TIME_LIMIT):
        raise SchemaError("a time further than 73 years from 0")


def _numbers(dtype: str, values: Any) -> np.ndarray[Any, Any]:
    given = np.asarray(values)
    if not len(given):
        return np.empty(0, dtype=dtype)
    try:
        with np.errstate(invalid="ignore"):
            column = given.astype(dtype)
    except (TypeError, ValueError, OverflowError):
        raise SchemaError(f"values that are no {dtype}") from None
    # A float holds missing values; what does not survive the change of type was something else.
    if column.dtype.kind != "f" and not np.array_equal(column, given):
        raise SchemaError(f"values that are no {dtype}")
    return column
