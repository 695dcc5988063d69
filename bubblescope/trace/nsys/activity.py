"""What ran on the devices: kernels, copies, memsets, and graphs that were recorded as a whole."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from bubblescope.trace.frames import UNKNOWN
from bubblescope.trace.nsys.database import MISSING, Database, Longs, whole
from bubblescope.trace.part import COPY, KERNEL, MEMSET, Columns

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
#: Written instead of kernels where graphs are traced as a whole, as Nsight Systems does unless told.
GRAPHS = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
_CODES = {
    KERNELS: KERNEL,
    "CUPTI_ACTIVITY_KIND_MEMCPY": COPY,
    "CUPTI_ACTIVITY_KIND_MEMSET": MEMSET,
    GRAPHS: KERNEL,
}
_NUMBERS = (
    "start", "end", "globalPid", "deviceId", "streamId", "correlationId", "bytes", "copyKind",
    "demangledName", "shortName", "mangledName",
)  # fmt: skip
_KINDS = (
    "", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP", "Unified HtoD",
    "Unified DtoH", "Unified DtoD",
)  # fmt: skip
#: Names that stand in no table of the export, by numbers that no string there has.
_MEMSET, GRAPH, NAMELESS, _COPY = -1, -2, -3, -16
OWN_NAMES = {
    _MEMSET: "Memset",
    GRAPH: "CUDA graph",
    NAMELESS: "kernel without a name",
    **{_COPY - kind: f"Memcpy {name}".rstrip() for kind, name in enumerate(_KINDS)},
}

#: Columns of `activity`: process and device as the export numbers them; `name` is the number of a string.
COLUMNS = ("process", "device", "stream", "begin_ns", "end_ns", "correlation", "bytes", "name", "code")


def activity(database: Database) -> Columns:
    """All that ran on the devices, in no order; times and process are MISSING where not told."""
    blocks = list(_blocks(database))
    empty = np.empty(0, np.int64)
    return {name: np.concatenate([block[name] for block in blocks]) if blocks else empty for name in COLUMNS}


def strings(database: Database, wanted: Collection[int]) -> dict[int, str]:
    """The export's strings with these numbers, as far as it has them."""
    numbers = np.array(sorted(wanted), dtype=np.int64)
    found = {number: OWN_NAMES[number] for number in wanted if number in OWN_NAMES}
    for ids, values in database.rows("StringIds", ("id",), ("value",)):
        for row in np.flatnonzero(np.isin(whole(ids), numbers)).tolist():
            if values[row] is not None:
                found[ids[row]] = values[row]
    return found


def _blocks(database: Database) -> Iterator[Columns]:
    for table, code in _CODES.items():
        for block in database.rows(table, _NUMBERS):
            own = dict(zip(_NUMBERS, map(whole, block), strict=True))
            yield {
                "process": own["globalPid"],
                "device": _known(own["deviceId"]),
                "stream": _known(own["streamId"]),
                "begin_ns": own["start"],
                "end_ns": own["end"],
                "correlation": _known(own["correlationId"]),
                "bytes": _known(own["bytes"]),
                "name": _names(table, code, own),
                "code": np.full(len(own["start"]), code, dtype=np.int8),
            }


def _known(values: Longs) -> Longs:
    return np.where(values < 0, UNKNOWN, values)


def _names(table: str, code: int, own: Columns) -> Longs:
    if table == GRAPHS or code == MEMSET:
        return np.full(len(own["start"]), GRAPH if table == GRAPHS else _MEMSET)
    if code == COPY:
        kind = own["copyKind"]
        return _COPY - np.where((kind > 0) & (kind < len(_KINDS)), kind, 0)
    name = np.full(len(own["start"]), NAMELESS)
    for column in ("mangledName", "shortName", "demangledName"):
        name = np.where(own[column] == MISSING, name, own[column])
    return name
