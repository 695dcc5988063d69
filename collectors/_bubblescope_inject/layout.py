"""The bytes of a spool file; docs/spool-format.md is the same in words.

A file is a header and then slots of one size, each an event. The last byte of a slot is written
last, so that a slot torn by a kill is known for what it is and costs nothing but itself.
"""

from __future__ import annotations

from struct import Struct

MAGIC = b"BUBSPOOL"
VERSION = 1
SLOT = 64
HEADER_SIZE = 256
LARGEST_FILE = 64 << 20
SUFFIX = ".spool"

#: magic, version, slot size, header size, process id, number of the file within its process,
#: monotonic and wall-clock ns of its creation, the three counts below, boot id, host name.
HEADER = Struct("<8sHHIIIqqQQQ36s28x64s")
#: Where the counts stand: events in files removed to make room, events that found no room,
#: events whose arguments were wrong.
DROPPED_AT, UNWRITTEN_AT, REFUSED_AT = 40, 48, 56
COUNT = Struct("<Q")

#: States of a slot, its last byte.
EMPTY, OPEN, COMPLETE = 0, 1, 2
#: Types of a slot, its last byte but one.
VOID, SPAN, STAGE, TEXT, FACT, REQUEST, INSTANT, COUNTER, ACTIVITY, LAUNCHES, CARD = range(11)

#: step, microbatch, bytes, begin, end, tokens, prefix, layer begin, layer end, stage, peer, kind,
#: phase, clock, lead, type, state. `stage` is the number of a STAGE slot of the same file.
SPAN_SLOT = Struct("<qqqqqiihhHhBBBxHBB")
#: The same slot while the span is open: microbatch, begin, stage, peer, kind, type, state.
OPEN_SPAN_SLOT = Struct("<8xq8xq20xHhB5xBB")
#: memory bytes, stage, rank, ordinal, layer begin, layer end, device name, capability, number.
STAGE_SLOT = Struct("<qiiiiiIIH24xBB")
#: a piece of UTF-8, the text's number, the whole text's length in bytes, the piece's number.
TEXT_SLOT = Struct("<52sIHH2xBB")
TEXT_PIECE = 52
#: time, name, value (JSON), both texts.
FACT_SLOT = Struct("<qII46xBB")
#: time, tokens, request (a text), event, whether it is a warm-up.
REQUEST_SLOT = Struct("<qqIBB40xBB")
#: time, name (a text), stage.
INSTANT_SLOT = Struct("<qIH48xBB")
#: time, value, name (a text), stage.
COUNTER_SLOT = Struct("<qdIH40xBB")
#: step, microbatch, correlation ids before the first and after the last launch, stage, peer, layer
#: begin, layer end, kind: a span of this process, and which work on devices was launched in it.
LAUNCHES_SLOT = Struct("<qqIIHhhhB29xBB")

#: time, memory used, bytes sent and received over NVLink, power (mW), KB/s sent and received over PCIe,
#: reasons for the clock, SM and memory clock (MHz), temperature, utilisation (percent), number of the card.
CARD_SLOT = Struct("<qqqqiiiihhhhH4xBB")

#: A span's lead is told in units of this, and one more, so that 0 says nothing; no more than fits.
LEAD_NS, LONGEST_LEAD = 1_000, 65_534

KINDS = (
    "forward", "embed", "head", "sample", "recv", "send", "copy", "split", "schedule", "sync", "layer",
    "attention", "save", "restore",
)  # fmt: skip
PHASES = ("prefill", "decode", "mixed", "unknown")
CLOCKS = ("device", "host")
ARRIVED, FIRST_TOKEN, ENDED = 1, 2, 3

LONGEST_TEXT = 65_535
LONGEST_NAME = 1_024
UNKNOWN = -1
