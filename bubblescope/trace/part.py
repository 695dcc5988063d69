"""What is kept of one document's events, column by column, while they stream by.

Of a profiler's trace nearly all events are the host's Python functions, operators and runtime
calls. They are dropped at once; device work and the ranges that were marked in the program stay.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from bubblescope.trace.decimals import LIMIT, nanoseconds, whole_number
from bubblescope.trace.frames import CATEGORIES, UNKNOWN
from bubblescope.trace.json_stream import Event, Scalar

#: Host operators of a trace without device work are kept up to this number, to show what there is.
MOST_HOST_OPS = 10_000
_MOST_LABELS = 100_000

#: Codes of slices: the position in CATEGORIES; those below DEVICE_CODES are work on a device.
KERNEL, COPY, MEMSET, DEVICE_RANGE, HOST_RANGE, HOST_OP, OTHER = range(len(CATEGORIES))
DEVICE_CODES = DEVICE_RANGE + 1
_DROPPED = -1

_CODES: dict[str | None, int] = {
    None: OTHER,
    "kernel": KERNEL,
    "Kernel": KERNEL,
    "gpu_memcpy": COPY,
    "Memcpy": COPY,
    "gpu_memset": MEMSET,
    "Memset": MEMSET,
    "gpu_user_annotation": DEVICE_RANGE,
    "user_annotation": HOST_RANGE,
    "cpu_op": HOST_OP,
    "Operator": HOST_OP,
    **dict.fromkeys((
        "python_function", "python", "cuda_runtime", "cuda_driver", "cuda_sync", "cuda_profiler_range",
        "ac2g", "fwdbwd", "overhead", "Trace", "cpu_instant_event", "async_cpu_to_gpu", "Runtime",
        "hip_runtime", "xpu_runtime", "mtia_runtime", "glow_runtime", "privateuse1_runtime",
        "privateuse1_driver",
    ), _DROPPED),
}  # fmt: skip


#: The columns of slices and of begins and ends, with their types as array has them.
_COLUMNS = {
    "lane": "i", "name": "i", "code": "b", "begin_ns": "q", "end_ns": "q", "correlation": "q", "bytes": "q",
    "message": "i", "microbatch": "q", "span": "b",
}  # fmt: skip
#: Those that say which span launched a slice: its microbatch, and its kind's position in SPAN_KINDS.
JOINED = ("microbatch", "span")
#: The phases of slices: complete, or begun and ended by two events.
_HALF = ("B", "E")
_SLICES = ("X", *_HALF)
_HALVES = {"lane": "i", "name": "i", "code": "b", "time": "q", "begins": "b"}


Columns = dict[str, np.ndarray[Any, Any]]


class Arguments(msgspec.Struct, gc=False):
    """The arguments of an event that mean something here; of any type, since files are not checked."""

    name: Any = None
    correlation: Any = None
    bytes: Any = None
    collective: Any = msgspec.field(name="Collective name", default=None)
    group: Any = msgspec.field(name="Process Group Name", default=None)
    ranks: Any = msgspec.field(name="Process Group Ranks", default=None)
    source: Any = msgspec.field(name="Src Rank", default=None)
    destination: Any = msgspec.field(name="Dst Rank", default=None)
    sent: Any = msgspec.field(name="In msg nelems", default=None)
    received: Any = msgspec.field(name="Out msg nelems", default=None)
    dtype: Any = None


@dataclass(frozen=True)
class Message:
    """What the recording says of a communication kernel, as text; numbers None where not told."""

    collective: str
    group: str
    ranks: str
    source: int | None
    destination: int | None
    elements: int | None
    dtype: str


_arguments = msgspec.json.Decoder(Arguments)
_all_arguments = msgspec.json.Decoder(list[Arguments | None])
_NO_ARGUMENTS = Arguments()


@dataclass
class Part:
    """One document of a recording, what one process wrote; filled by `add` and closed by `columns`.

    fields: the JSON text of the fields beside the events.
    lanes, names, messages: the distinct values in order of appearance, with their positions.
    slices, others, shapeless: how many events with a duration there were in all, how many of other
        kinds, and how many objects that are no events.
    dropped: how many were left out, by reason.
    on_device: whether any of them was work on a device.
    uncategorised: whether none of them had a category.
    """

    fields: dict[str, bytes] = field(default_factory=dict)
    process_names: dict[str, str] = field(default_factory=dict)
    lane_names: dict[tuple[str, str], str] = field(default_factory=dict)
    lanes: dict[tuple[Scalar, Scalar], int] = field(default_factory=dict)
    names: dict[Scalar, int] = field(default_factory=dict)
    messages: dict[Message, int] = field(default_factory=dict)
    slices: int = 0
    others: int = 0
    shapeless: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    on_device: bool = False
    uncategorised: bool = True
    _columns: dict[str, array[int]] = field(
        default_factory=lambda: {name: array(kind) for name, kind in _COLUMNS.items()}
    )
    _halves: dict[str, array[int]] = field(
        default_factory=lambda: {name: array(kind) for name, kind in _HALVES.items()}
    )
    host_ops: int = 0

    def add(self, events: list[Event]) -> None:
        """Keep what matters of a block of events."""
        code_of = _CODES.get
        kept = [e for e in events if code_of(e.cat, OTHER) >= 0 or e.ph in _HALF]
        skipped = len(events) - len(kept)
        self.slices += skipped
        self.uncategorised = self.uncategorised and not skipped
        slices: list[Event] = []
        for event in kept:
            if event.ph in _SLICES:
                slices.append(event)
            elif event.ph is None:
                self.shapeless += 1
            else:
                self.others += 1
                self._label(event)
        if slices:
            self._add_slices(slices, [code_of(event.cat, OTHER) for event in slices])

    def _add_slices(self, slices: list[Event], codes: list[int]) -> None:
        self.slices += len(slices)
        self.uncategorised = self.uncategorised and not any(event.cat for event in slices)
        self.on_device = self.on_device or any(0 <= code < DEVICE_CODES for code in codes)
        whole: list[Event] = []
        begins, ends, kept = (self._columns[name] for name in ("begin_ns", "end_ns", "code"))
        for event, code in zip(slices, codes, strict=True):
            if code >= HOST_OP and not self._has_room(code):
                continue
            begin = nanoseconds(bytes(event.ts))
            if begin is None:
                self.dropped["no_time"] += 1
            elif event.ph != "X":
                self._half(event, code, begin)
            elif (duration := nanoseconds(bytes(event.dur))) is None:
                self.dropped["unfinished"] += 1
            elif duration < 0:
                self.dropped["negative"] += 1
            else:
                whole.append(event)
                begins.append(begin)
                ends.append(begin + duration)
                kept.append(code)
        self._add_facts(whole)

    def _has_room(self, code: int) -> bool:
        self.host_ops += code == HOST_OP
        return not self.on_device and (code == OTHER or self.host_ops <= MOST_HOST_OPS)

    def _add_facts(self, slices: list[Event]) -> None:
        """Fill the columns beside times and codes."""
        columns, lanes, names = self._columns, self.lanes, self.names
        arguments = _decoded_arguments([event.args for event in slices])
        columns["lane"].extend([lanes.setdefault((e.pid, e.tid), len(lanes)) for e in slices])
        columns["name"].extend([names.setdefault(e.name, len(names)) for e in slices])
        columns["correlation"].extend([_number(a.correlation) for a in arguments])
        columns["bytes"].extend([_number(a.bytes) for a in arguments])
        columns["message"].extend([UNKNOWN if a.collective is None else self._message(a) for a in arguments])
        for name in JOINED:
            columns[name].extend([UNKNOWN] * len(slices))

    def _message(self, arguments: Arguments) -> int:
        elements = whole_number(arguments.sent) or whole_number(arguments.received)
        message = Message(
            collective=str(arguments.collective),
            group="" if arguments.group is None else str(arguments.group),
            ranks="" if arguments.ranks is None else str(arguments.ranks),
            source=whole_number(arguments.source),
            destination=whole_number(arguments.destination),
            elements=elements,
            dtype=str(arguments.dtype),
        )
        return self.messages.setdefault(message, len(self.messages))

    def _label(self, event: Event) -> None:
        if event.ph != "M":
            return
        text = _decoded_arguments([event.args])[0].name
        if not isinstance(text, str) or len(self.lane_names) + len(self.process_names) > _MOST_LABELS:
            return
        if event.name == "process_name":
            self.process_names[str(event.pid)] = text
        elif event.name == "thread_name":
            self.lane_names[str(event.pid), str(event.tid)] = text

    def _half(self, event: Event, code: int, time: int) -> None:
        halves = self._halves
        halves["lane"].append(self.lanes.setdefault((event.pid, event.tid), len(self.lanes)))
        halves["name"].append(self.names.setdefault(event.name, len(self.names)))
        halves["code"].append(code)
        halves["time"].append(time)
        halves["begins"].append(event.ph == "B")

    def columns(self) -> Columns:
        """The slices that count: lane, name, code, begin_ns, end_ns, correlation, bytes, message, and JOINED.

        Where there is work on a device nothing of the host is kept but the ranges it marked. To be
        called once: the part gives its memory away.
        """
        self._pair()
        columns: Columns = {
            name: np.frombuffer(values, values.typecode) for name, values in self._columns.items()
        }
        self._columns = {}
        return only(columns, columns["code"] <= HOST_RANGE) if self.on_device else columns

    def _pair(self) -> None:
        """Make slices of begins and ends: per lane, in order of time, the last begun ends first."""
        halves = {name: np.frombuffer(values, values.typecode) for name, values in self._halves.items()}
        open_slices: dict[int, list[int]] = defaultdict(list)
        pairs: list[tuple[int, int]] = []
        for row in np.argsort(halves["time"], kind="stable").tolist():
            stack = open_slices[int(halves["lane"][row])]
            if halves["begins"][row]:
                stack.append(row)
            elif stack:
                pairs.append((stack.pop(), row))
            else:
                self.dropped["unpaired"] += 1
        self.dropped["unfinished"] += sum(map(len, open_slices.values()))
        first = np.array([begin for begin, _ in pairs], dtype=np.int64)
        last = np.array([end for _, end in pairs], dtype=np.int64)
        kept = halves["code"][first] >= 0 if len(first) else np.zeros(0, dtype=bool)
        first, last = first[kept], last[kept]
        nothing = np.full(len(first), UNKNOWN)
        rows = {
            "lane": halves["lane"][first],
            "name": halves["name"][first],
            "code": halves["code"][first],
            "begin_ns": halves["time"][first],
            "end_ns": halves["time"][last],
            "correlation": nothing,
            "bytes": nothing,
            "message": nothing,
            **dict.fromkeys(JOINED, nothing),
        }
        self.extend(rows)

    def extend(self, rows: Columns) -> None:
        """Keep slices that are columns already, with lanes, names and messages as this part numbers them.
        Other columns are passed over."""
        for name, kept in self._columns.items():
            kept.frombytes(rows[name].astype(kept.typecode).tobytes())


def only(columns: Columns, rows: np.ndarray[Any, Any]) -> Columns:
    """These rows of the columns; the columns themselves, not copied, where that is all of them."""
    if rows.all():
        return columns
    return {name: columns.pop(name)[rows] for name in list(columns)}


def _decoded_arguments(texts: list[msgspec.Raw]) -> list[Arguments]:
    """The arguments of several events at once; where one of them is no object it counts as empty."""
    try:
        decoded = _all_arguments.decode(b"[%b]" % b",".join(texts))
    except (msgspec.DecodeError, RecursionError):
        decoded = [_decoded_alone(text) for text in texts]
    return [arguments or _NO_ARGUMENTS for arguments in decoded]


def _decoded_alone(text: msgspec.Raw) -> Arguments | None:
    try:
        return _arguments.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


def _number(value: Any) -> int:
    if type(value) is int and 0 <= value < LIMIT:
        return value
    number = whole_number(value)
    return UNKNOWN if number is None or number < 0 else number
