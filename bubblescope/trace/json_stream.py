"""Chrome Trace Event JSON as a stream: blocks of events, and the fields that stand around them.

Memory does not grow with the file. Events are decoded a block at a time, only in the fields
that a reader may want. A block ends where an event ends, and that is guessed and proven: text cut
at a wrong place never decodes. Only where no guess decodes is the block walked event by event:
what can be mended is, and a broken event costs that event.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import msgspec

from bubblescope.trace.json_repair import Repairs, as_utf8, mended, without_bare_numbers
from bubblescope.trace.json_window import (
    BETWEEN,
    BETWEEN_DOCUMENTS,
    MalformedError,
    Window,
    through_value,
)

#: Blocks begin so small, and so much is walked event by event at a time: every error costs time in it.
_FIRST_BLOCK = 1 << 16
_BLOCK = 1 << 20
#: An event longer than this is left out.
_LONGEST_EVENT = 1 << 21
#: A field around the events longer than this is left out.
_LONGEST_FIELD = 1 << 26
_MOST_DOCUMENTS = 1000
#: So many broken elements and not one event: whatever it is, it is no list of events.
_HOPELESS = 1000
#: And so many broken events, or places tried behind them: the time that each takes is better saved.
_MOST_BROKEN = 100_000
#: An event's phase stands so near to its begin, or the event is not recognised behind a broken one.
_NEAR = 1 << 10
#: How many boundaries behind a broken event are tried to find the next good one.
_MOST_RESUMPTIONS = 64
#: More fields than this beside the events are a mistake.
_MOST_FIELDS = 100_000
#: Boundaries are looked for here first: in the last bytes of a block.
_TAIL = 1 << 14
_CLOSE = ord("]")
_CUT = "the file ends before its JSON does"

#: Where an event may end: before the next one, at the end of the array, at the end of the text.
_BOUNDARY = re.compile(rb"\}(?=\s*(?:,\s*\{|\]|,?\s*\Z))")
#: A string that the text breaks off in.
_OPEN_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*\\?\Z', re.DOTALL)
#: How most writers begin an event.
_EVENT = re.compile(rb'\{\s*"ph"\s*:')
_EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*(?=\[)')
#: Which of the last boundaries are tried: the last, then ever further back.
_TRIES = (1, 2, 4, 8, 16, 32)

Scalar = str | int | float | bool | None


class Event(msgspec.Struct, gc=False):
    """One event; numbers that must stay exact and arguments are left as the file writes them.

    time_ns: only in our own files.
    """

    ph: str | None = None
    cat: str | None = None
    name: Scalar = None
    pid: Scalar = None
    tid: Scalar = None
    ts: msgspec.Raw = msgspec.Raw(b"")
    dur: msgspec.Raw = msgspec.Raw(b"")
    args: msgspec.Raw = msgspec.Raw(b"null")
    time_ns: msgspec.Raw = msgspec.Raw(b"null")


@dataclass(frozen=True)
class DocumentStart:
    """A JSON document begins."""


@dataclass(frozen=True)
class EventsStart:
    """The list of events of the present document begins."""


@dataclass(frozen=True)
class Field:
    """A field of the present document beside its events, as JSON text; None where it is too long."""

    key: str
    value: bytes | None


Item = DocumentStart | EventsStart | Field | list[Event]


@dataclass
class Damage:
    """What could not be read. Offsets count uncompressed bytes.

    broken: events left out, the first of them at `broken_at`.
    field: where a field beside the events made no sense, so that it and its neighbours are lost.
    cut: where reading ended although more should have come, and why.
    tries: how many places were looked at to find good events behind broken ones.
    """

    repairs: Repairs = dataclasses.field(default_factory=Repairs)
    broken: int = 0
    broken_at: int = 0
    field: int | None = None
    cut: tuple[int, str] | None = None
    tries: int = dataclasses.field(default=0, compare=False)

    def leave_out(self, offset: int) -> None:
        self.broken_at = self.broken_at if self.broken else offset
        self.broken += 1


_decoder = msgspec.json.Decoder(list[Event])
_scanner = json.JSONDecoder(strict=False)


def read_json(window: Window, damage: Damage, block: int = _BLOCK) -> Iterator[Item]:
    """Everything in the file, in order; what is wrong with it is added to `damage`.

    `block` is how many bytes of events are decoded at a time, once a list proves long.
    Raises nothing for any content: reading ends where nothing more can be made of it.
    """
    documents = 0
    try:
        while first := window.peek(BETWEEN_DOCUMENTS):
            if first not in (b"{", b"["):
                raise MalformedError("what follows is no JSON")
            if documents == _MOST_DOCUMENTS:
                raise MalformedError(f"more than {_MOST_DOCUMENTS} JSON documents in one file")
            documents += 1
            window.position += 1
            yield DocumentStart()
            if first == b"{":
                yield from _object(window, damage, block)
            else:
                yield EventsStart()
                yield from _events(window, damage, block, may_stay_open=True)
    except MalformedError as problem:
        damage.cut = (window.offset, str(problem))
    if window.broken:
        damage.cut = (window.offset, window.broken)


def _object(window: Window, damage: Damage, block: int) -> Iterator[Item]:
    """The fields of an object whose brace is behind us, through its closing brace."""
    fields = 0
    while (first := window.peek(BETWEEN)) != b"}":
        fields += 1
        if not first or fields > _MOST_FIELDS:
            raise MalformedError("too many fields" if first else _CUT)
        begin = window.offset
        try:
            key = window.key()
            events = key == "traceEvents" and window.peek() == b"["
            value = None if events else window.value(_LONGEST_FIELD)
        except MalformedError:
            damage.field = begin if damage.field is None else damage.field
            if not window.find(_EVENTS_KEY):
                raise
            events = True
        if events:
            window.position += 1
            yield EventsStart()
            yield from _events(window, damage, block, may_stay_open=False)
        else:
            yield Field(key, value)
    window.position += 1


def _events(window: Window, damage: Damage, block: int, may_stay_open: bool) -> Iterator[Item]:
    """The events of a list whose bracket is behind us, through its closing bracket.

    The Chrome format lets a bare list end without its bracket.
    """
    small = size = needed = min(_FIRST_BLOCK, block)
    none_yet = True
    while (first := window.peek(BETWEEN)) != b"]":
        if not first and may_stay_open:
            return
        if not first:
            raise MalformedError(_CUT)
        events = _block(window, size, damage)
        if events is None and size > needed:
            size = needed  # what is wrong may stand behind a good part
            continue
        if events is None:
            events = _walk(window, size, damage)
        if events is not None:
            none_yet = none_yet and not events
            yield events
            if max(damage.broken, damage.tries) > (_HOPELESS if none_yet else _MOST_BROKEN):
                raise MalformedError("too many broken events")
            size, needed = min(2 * size, max(size, block)), small
        elif size < _LONGEST_EVENT:
            size = needed = 2 * size
        else:
            damage.leave_out(window.offset)
            window.value(0)
    window.position += 1


def _block(window: Window, size: int, damage: Damage) -> list[Event] | None:
    """The events of the block up to a boundary that proves right, or None."""
    chunk = window.head(size)
    ends = _boundaries(chunk)
    attempts = [(as_utf8, end) for end in ends] + [(without_bare_numbers, end) for end in ends[:1]]
    for mend, end in attempts:
        body, repairs = mend(chunk[:end])
        events = _decoded(body)
        if events is not None:
            window.position += end
            damage.repairs.add(repairs)
            return events
    return None


def _boundaries(chunk: bytes) -> list[int]:
    """Some of the places, the last first, where an event may end."""
    tail = max(0, len(chunk) - _TAIL)
    found = [match.end() for match in _BOUNDARY.finditer(chunk, tail)]
    if len(found) < _TRIES[-1] and tail:
        found = [match.end() for match in _BOUNDARY.finditer(chunk)]
    return [found[-back] for back in _TRIES if back <= len(found)]


def _decoded(body: bytes) -> list[Event] | None:
    try:
        return _decoder.decode(b"[%b]" % body)
    except (msgspec.DecodeError, RecursionError):
        return None


def _walk(window: Window, size: int, damage: Damage) -> list[Event] | None:
    """The events of the block one by one, without the broken ones; None if it takes more text."""
    chunk = window.head(size)
    text = chunk.decode("latin-1")  # one character a byte, so that places in both are the same
    last = window.at_end(size)
    events: list[Event] = []
    place = 0
    while (begin := _next(chunk, place)) < len(chunk) and chunk[begin] != _CLOSE:
        tries = damage.tries
        end, readable = _element_end(chunk, text, begin, damage)
        if end is None or (not readable and not last and len(chunk) - begin < _TAIL):
            break
        found = _mended_events(chunk[begin:end], damage)
        if found is None:
            damage.leave_out(window.offset + begin)
        else:
            damage.tries = tries
            events += found
        place = end
    if not place and last:
        raise MalformedError("the file ends inside an event")
    window.position += place
    return events if place else None


def _next(chunk: bytes, place: int) -> int:
    match = BETWEEN.match(chunk, place)
    return match.end() if match else place


def _element_end(chunk: bytes, text: str, begin: int, damage: Damage) -> tuple[int | None, bool]:
    """Where the element of the list ends, and whether it is well formed up to there."""
    try:
        return _scanner.raw_decode(text, begin)[1], True
    except RecursionError:
        end, _, _, whole = through_value(chunk, begin, 0, False)
        return end if whole else None, False
    except json.JSONDecodeError as error:
        torn = _OPEN_STRING.match(chunk, error.pos)
        return None if torn else _resumption(chunk, text, error.pos, damage), False


def _resumption(chunk: bytes, text: str, broken: int, damage: Damage) -> int | None:
    """The end of a broken event: the first boundary that an event follows, or the list's end.

    Where many boundaries prove to be none all of them are passed over, so that each is tried once.
    """
    otherwise = None
    tries = 0
    for match in islice(_BOUNDARY.finditer(chunk, broken), _MOST_RESUMPTIONS):
        tries += 1
        damage.tries += 1
        begin = _next(chunk, match.end())
        if _EVENT.match(chunk, begin):
            return match.end()
        if chunk[begin : begin + 1] == b"]":
            otherwise = otherwise or match.end()
        elif chunk[begin : begin + 1] == b"{" and _holds_event(text, begin):
            return match.end()
    return match.end() if otherwise is None and tries == _MOST_RESUMPTIONS else otherwise


def _holds_event(text: str, begin: int) -> bool:
    if text.find('"ph"', begin, begin + _NEAR) < 0:
        return False
    try:
        return "ph" in _scanner.raw_decode(text, begin)[0]
    except (ValueError, RecursionError):
        return False


def _mended_events(body: bytes, damage: Damage) -> list[Event] | None:
    mended_body, repairs = mended(body)
    events = _decoded(mended_body)
    if events is not None:
        damage.repairs.add(repairs)
    return events
