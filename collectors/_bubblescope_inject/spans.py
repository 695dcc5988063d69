"""Stages, and the spans, instants and counters that belong to one."""

from __future__ import annotations

import contextlib
import copy
from time import monotonic_ns
from typing import Any

from . import launches, ranges, recording
from .layout import (
    CLOCKS,
    COMPLETE,
    COUNTER,
    COUNTER_SLOT,
    INSTANT,
    INSTANT_SLOT,
    KINDS,
    LAUNCHES,
    LAUNCHES_SLOT,
    LEAD_NS,
    LONGEST_LEAD,
    LONGEST_NAME,
    OPEN,
    OPEN_SPAN_SLOT,
    PHASES,
    SPAN,
    SPAN_SLOT,
    UNKNOWN,
)
from .spoolfile import NoRoomError, SpoolFile
from .writer import Writer

_KIND_NUMBERS = {kind: number for number, kind in enumerate(KINDS)}
_PHASE_NUMBERS = {phase: number for number, phase in enumerate(PHASES)}
_CLOCK_NUMBERS = {clock: number for number, clock in enumerate(CLOCKS)}
_HOST_CLOCK = _CLOCK_NUMBERS["host"]
_pack = SPAN_SLOT.pack_into
_pack_open = OPEN_SPAN_SLOT.pack_into


class Span:
    """A piece of work: `with stage.span(...)`, or `begin()` and `end()`, on whatever thread.

    What is known only later (bytes, tokens, ...) is set as an attribute before the end. The begin
    is written at once, so that a span in which its process was killed is known too.
    """

    __slots__ = (
        "_after", "_file", "_offset", "_range", "_stage", "_writer", "begin_ns", "bytes", "kind",
        "microbatch", "peer", "phase", "prefix", "step", "tokens",
    )  # fmt: skip

    def __init__(
        self, stage: Stage, writer: Writer, kind: str, phase: str, step: int, microbatch: int, tokens: int,
        prefix: int, peer: int, bytes: int,
    ) -> None:  # fmt: skip
        self._stage = stage
        self._writer = writer
        self._file: SpoolFile | None = None
        self.kind = kind
        self.phase = phase
        self.step = step
        self.microbatch = microbatch
        self.tokens = tokens
        self.prefix = prefix
        self.peer = peer
        self.bytes = bytes

    def begin(self) -> Span:
        """Begin now."""
        stage = self._stage
        try:
            file = self._writer.file
            offset = next(file.offsets)
            if offset >= file.end:
                file = self._writer.next_file(file)
                offset = next(file.offsets)
                if offset >= file.end:
                    raise NoRoomError
            self._file = file
            self._offset = offset
            self._range = None
            if stage.ranges is not None:
                self._range = stage.range(
                    self.kind, phase=self.phase, step=self.step, microbatch=self.microbatch,
                    tokens=self.tokens, prefix=self.prefix, peer=self.peer,
                )  # fmt: skip
            self._after = launches.position() if launches.position is not None else 0
            self.begin_ns = begin_ns = monotonic_ns()
            _pack_open(
                file.buffer, offset, self.microbatch, begin_ns, stage.number, self.peer,
                _KIND_NUMBERS[self.kind], SPAN, OPEN,
            )  # fmt: skip
        except Exception as error:
            self._give_up(error)
        return self

    def restart(self) -> None:
        """Begin now instead: what was done since the begin has a span of its own."""
        self.begin_ns = monotonic_ns()

    def end(self, *_: object) -> None:
        """End now."""
        file = self._file
        if file is None or file.process is not self._writer.process:  # the latter: begun before a fork
            return
        stage = self._stage
        try:
            _pack(
                file.buffer, self._offset, self.step, self.microbatch, self.bytes, self.begin_ns,
                monotonic_ns(), self.tokens, self.prefix, stage.layer_begin, stage.layer_end, stage.number,
                self.peer, _KIND_NUMBERS[self.kind], _PHASE_NUMBERS[self.phase], _HOST_CLOCK, 0, SPAN,
                COMPLETE,
            )  # fmt: skip
            self._file = None  # a second end changes nothing
            if stage.ranges is not None:
                stage.ranges.end(self._range)
            if self._after:
                stage.launched(self.kind, self._after, self.step, self.microbatch, self.peer)
        except Exception as error:
            self._give_up(error)

    __enter__ = begin
    __exit__ = end

    def _give_up(self, error: Exception) -> None:
        if self._file is not None:
            self._file.void(self._offset)
            self._file = None
        recording.lost(error)


class SilentSpan(Span):
    """The span of a process that does not record."""

    __slots__ = ()

    def __init__(self) -> None:
        pass

    def __setattr__(self, name: str, value: object) -> None:
        pass

    def begin(self) -> Span:
        return self

    def end(self, *_: object) -> None:
        pass

    __enter__ = begin
    __exit__ = end


_SILENT = SilentSpan()


class Stage:
    """A stage of the pipeline as this process runs it; made by `stage()`.

    One process may have several. Stages of one number in several processes are one stage.
    """

    def __init__(
        self, number: int, layers: tuple[int, int], stage: int = UNKNOWN, rank: int = UNKNOWN
    ) -> None:
        self.number = number
        self._place = stage, rank
        self.layer_begin, self.layer_end = layers
        self.ranges = ranges.find() if recording.writer is not None else None

    def span(
        self, kind: str, *, phase: str = "unknown", step: int = UNKNOWN, microbatch: int = UNKNOWN,
        tokens: int = UNKNOWN, prefix: int = UNKNOWN, peer: int = UNKNOWN, bytes: int = UNKNOWN,
    ) -> Span:  # fmt: skip
        """A span to be begun.

        kind: what is done, one of `KINDS`.
        phase: one of `PHASES`.
        step, microbatch: the scheduler's step; the id that all stages share for these tokens.
        tokens, prefix: new tokens, and those already in the KV cache before them.
        peer: the other stage of a recv, send or copy.
        bytes: the size of what is moved.
        """
        writer = recording.writer
        if writer is None:
            return _SILENT
        return Span(self, writer, kind, phase, step, microbatch, tokens, prefix, peer, bytes)

    def measured(
        self, kind: str, begin_ns: int, end_ns: int, *, phase: str = "unknown", step: int = UNKNOWN,
        microbatch: int = UNKNOWN, tokens: int = UNKNOWN, prefix: int = UNKNOWN, peer: int = UNKNOWN,
        bytes: int = UNKNOWN, clock: str = "device", lead_ns: int = UNKNOWN,
    ) -> None:  # fmt: skip
        """Note work that is over, with CLOCK_MONOTONIC times.

        clock: which clock told them, the device's (brought onto the host's) or the "host"'s.
        lead_ns: how long before its end on the device the host had launched the last of it.
        The other arguments are those of `span`.
        """
        recording.write(
            lambda file: file.put(
                SPAN_SLOT, step, microbatch, bytes, begin_ns, end_ns, tokens, prefix, self.layer_begin,
                self.layer_end, self.number, peer, _KIND_NUMBERS[kind], _PHASE_NUMBERS[phase],
                _CLOCK_NUMBERS[clock], _lead(lead_ns), SPAN,
            )
        )  # fmt: skip

    def launched(
        self, kind: str, after: int, step: int = UNKNOWN, microbatch: int = UNKNOWN, peer: int = UNKNOWN
    ) -> None:
        """Note that a span of this kind has launched all work since `launches.position` was `after`."""
        if launches.position is None:
            return
        before = launches.position()
        recording.write(
            lambda file: file.put(
                LAUNCHES_SLOT, step, microbatch, after, before, self.number, peer, self.layer_begin,
                self.layer_end, _KIND_NUMBERS[kind], LAUNCHES,
            )
        )  # fmt: skip

    def part(self, layer: int) -> Stage:
        """The stage as far as one of its layers goes, for spans of that layer alone."""
        part = copy.copy(self)
        # What is no number is refused, and counted, with every event.
        part.layer_begin = part.layer_end = layer
        with contextlib.suppress(Exception):
            part.layer_end = layer + 1
        return part

    def range(
        self, kind: str, *, phase: str = "unknown", step: int = UNKNOWN, microbatch: int = UNKNOWN,
        tokens: int = UNKNOWN, prefix: int = UNKNOWN, peer: int = UNKNOWN,
    ) -> Any:  # fmt: skip
        """Begin an NVTX range for a span, to be given to `ranges.end`; None where nobody would see it.

        The arguments are those of `span`.
        """
        if self.ranges is None:
            return None
        layers = self.layer_begin, self.layer_end
        name = ranges.named(kind, *self._place, layers, phase, step, microbatch, tokens, prefix, peer)
        return self.ranges.start(name, (self._place[0], microbatch, tokens))

    def instant(self, name: str) -> None:
        """Mark this moment."""
        now = monotonic_ns()
        recording.write(
            lambda file: file.put(INSTANT_SLOT, now, file.text(name, LONGEST_NAME), self.number, INSTANT)
        )

    def counter(self, name: str, value: float) -> None:
        """Note a value now; the name carries its unit, for example "sm_clock_mhz"."""
        now = monotonic_ns()
        recording.write(
            lambda file: file.put(
                COUNTER_SLOT, now, value, file.text(name, LONGEST_NAME), self.number, COUNTER
            )
        )


def _lead(lead_ns: int) -> int:
    """As it stands in a slot; what is no lead is not told."""
    known = isinstance(lead_ns, int) and lead_ns >= 0
    return min(lead_ns // LEAD_NS, LONGEST_LEAD) + 1 if known else 0
