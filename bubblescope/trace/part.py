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

from bubblescope.trace.decimals import nanoseconds, whole_number
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
    "message": "i",
}  # fmt: skip
_HALVES = {"lane": "i", "name": "i", "code": "b", "time": "q", "begins": "b"}


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
    events, slices: how many events of any kind, and how many with a duration, there were in all.
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
    events: int = 0
    slices: int = 0
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
        kept = [
            (event, code)
            for event in events
            if (code := code_of(event.cat, OTHER)) >= 0 or event.ph in ("B", "E")
        ]
        skipped = len(events) - len(kept)
        self.events += skipped
        self.slices += skipped
        finished: list[tuple[Event, int, int, int]] = []
        for event, code in kept:
            phase = event.ph
            if phase is None:
                continue
            self.events += 1
            if phase == "M":
                self._label(event)
                continue
            if phase not in ("X", "B", "E"):
                continue
            self.slices += 1
            self.uncategorised = self.uncategorised and not event.cat
            self.on_device = self.on_device or 0 <= code < DEVICE_CODES
            if not self._has_room(code):
                continue
            begin = nanoseconds(bytes(event.ts))
            if begin is None:
                self.dropped["no_time"] += 1
            elif phase == "X":
                duration = nanoseconds(bytes(event.dur))
                if duration is None or duration < 0:
                    self.dropped["unfinished" if duration is None else "negative"] += 1
                else:
                    finished.append((event, code, begin, begin + duration))
            else:
                self._half(event, code, begin)
        self.uncategorised = self.uncategorised and not skipped
        self._keep(finished)

    def _has_room(self, code: int) -> bool:
        if code < HOST_OP:
            return True
        self.host_ops += code == HOST_OP
        return not self.on_device and (code == OTHER or self.host_ops <= MOST_HOST_OPS)

    def _keep(self, finished: list[tuple[Event, int, int, int]]) -> None:
        columns, lanes, names = self._columns, self.lanes, self.names
        arguments = _decoded_arguments([event.args for event, *_ in finished])
        columns["lane"].extend(lanes.setdefault((e.pid, e.tid), len(lanes)) for e, *_ in finished)
        columns["name"].extend(names.setdefault(e.name, len(names)) for e, *_ in finished)
        columns["code"].extend(code for _, code, _, _ in finished)
        columns["begin_ns"].extend(begin for *_, begin, _ in finished)
        columns["end_ns"].extend(end for *_, end in finished)
        columns["correlation"].extend(_number(a.correlation) for a in arguments)
        columns["bytes"].extend(_number(a.bytes) for a in arguments)
        columns["message"].extend(
            self._message(a) if a.collective is not None else UNKNOWN for a in arguments
        )

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

    def columns(self) -> dict[str, np.ndarray[Any, Any]]:
        """The slices that count: lane, name, code, begin_ns, end_ns, correlation, bytes, message.

        Where there is work on a device nothing of the host is kept but the ranges it marked.
        """
        self._pair()
        columns = {name: np.frombuffer(values, values.typecode) for name, values in self._columns.items()}
        if self.on_device:
            kept = columns["code"] <= HOST_RANGE
            columns = {name: values[kept] for name, values in columns.items()}
        return columns

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
        }
        for name, values in rows.items():
            self._columns[name].frombytes(values.astype(self._columns[name].typecode).tobytes())


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
    number = whole_number(value)
    return UNKNOWN if number is None or number < 0 else number
