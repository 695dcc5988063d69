"""Work of a CUDA device, timed by events on its own clock and brought onto the host's.

The engine's threads only put events on streams. A thread of ours asks now and then which of them
have happened; nothing ever waits for the device.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from time import monotonic_ns
from typing import Any

from . import fact, launches, recording
from .layout import UNKNOWN
from .spans import Stage

#: How often it is asked what has happened.
LOOK_SECONDS = 0.02
#: An event's time is a float of milliseconds from an anchor: the older that is, the coarser.
ANCHOR_NS = 1_000_000_000
#: An anchor is the best of a few tries, none of which may take longer than this.
TRIES, TRY_NS = 5, 2_000_000
UNCERTAINTY_FACT = "device_clock_uncertainty_ns"

Use = Callable[[int, int], None]


class DeviceClock:
    """Brings events of one device onto CLOCK_MONOTONIC. `torch` is the module, imported by the engine."""

    def __init__(self, torch: Any, device: Any) -> None:
        self._cuda = torch.cuda
        self._device = device
        self._stream = self._cuda.Stream(device)
        self._anchor: tuple[Any, int] | None = None
        self._worst_ns = 0
        self._pending: deque[tuple[Any, Any, Use]] = deque()
        self._wake = threading.Event()
        self._take_anchor()
        threading.Thread(target=self._read, name="bubblescope", daemon=True).start()

    def mark(self, stream: Any = None) -> Any:
        """An event on a stream, by default the current one."""
        event = self._cuda.Event(enable_timing=True)
        event.record(stream)
        return event

    def read_later(self, begin: Any, end: Any, use: Use) -> None:
        """Call `use` with the times of two events once both have happened."""
        self._pending.append((begin, end, use))
        self._wake.set()

    def _read(self) -> None:
        try:
            self._cuda.set_device(self._device)
        except Exception as error:  # every event will say so
            recording.lost(error)
        while self._wake.wait():
            self._wake.clear()
            while self._pending:
                time.sleep(LOOK_SECONDS)
                for _ in range(len(self._pending)):
                    self._read_one(*self._pending.popleft())

    def _read_one(self, begin: Any, end: Any, use: Use) -> None:
        """Nothing that one event does may keep those after it from being read: they would pile up."""
        try:
            if end.query() and begin.query():
                begin_ns = self._time_ns(begin)
                use(begin_ns, max(begin_ns, self._time_ns(end)))
            else:
                self._pending.append((begin, end, use))
        except Exception as error:  # also while the interpreter shuts down
            recording.lost(error)

    def _time_ns(self, event: Any) -> int:
        if self._anchor is None or monotonic_ns() - self._anchor[1] > ANCHOR_NS:
            self._take_anchor()
        if self._anchor is None:
            raise RuntimeError("the device did not answer")
        anchor, anchor_ns = self._anchor
        since_ms: float = anchor.elapsed_time(event)
        return anchor_ns + round(since_ms * 1e6)

    def _take_anchor(self) -> None:
        """Find out when, on the host's clock, an event happened: it lies between record and query."""
        best = TRY_NS
        for _ in range(TRIES):
            before = monotonic_ns()
            event = self.mark(self._stream)
            while not event.query() and monotonic_ns() - before < TRY_NS:
                pass
            width = monotonic_ns() - before
            if width < best:
                best, self._anchor = width, (event, before + width // 2)
        if self._worst_ns < best // 2 and best < TRY_NS:
            self._worst_ns = best // 2
            fact(UNCERTAINTY_FACT, self._worst_ns)


class DeviceSpan:
    """A span of a device; used like `Span`, but what lies between begin and end is on a stream."""

    def __init__(self, clock: DeviceClock, stage: Stage, kind: str, **fields: Any) -> None:
        self._clock = clock
        self._stage = stage
        self._fields = fields
        self.kind = kind
        self.bytes = fields.pop("bytes", UNKNOWN)

    def begin(self) -> DeviceSpan:
        """Begin after everything that is on the current stream."""
        self._range = self._stage.range(self.kind, **self._fields)
        self._after = launches.position() if launches.position is not None else 0
        self._begin = self._clock.mark()
        return self

    def restart(self) -> None:
        """Begin here instead: what was done since the begin has a span of its own."""
        self._begin = self._clock.mark()

    def end(self, stream: Any = None) -> None:
        """End after everything that is on a stream, by default the current one."""
        end = self._clock.mark(stream)
        self._launched_ns = monotonic_ns()
        ranges = self._stage.ranges
        if ranges is not None:
            ranges.end(self._range)
        if self._after:
            told = {
                name: self._fields[name] for name in ("step", "microbatch", "peer") if name in self._fields
            }
            self._stage.launched(self.kind, self._after, **told)
        self._clock.read_later(self._begin, end, self._write)

    def _write(self, begin_ns: int, end_ns: int) -> None:
        # The clocks agree within microseconds: less than nothing is nothing.
        lead_ns = max(0, end_ns - self._launched_ns)
        self._stage.measured(self.kind, begin_ns, end_ns, bytes=self.bytes, lead_ns=lead_ns, **self._fields)
