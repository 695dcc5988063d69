"""Files that are no trace we read: what they are instead, and what to do."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from bubblescope.errors import NotATraceError
from bubblescope.trace.json_stream import Damage
from bubblescope.trace.nsys.database import MAGIC
from bubblescope.trace.source import shown

_EVENTS = "traceEvents"

#: Traces in formats that are not read, by the end of their names, and what to do.
_UNREAD = {
    **dict.fromkeys(
        (".nsys-rep", ".qdrep"),
        ("an Nsight Systems report", "export it first: nsys export --type sqlite {}"),
    ),
    ".pftrace": ("a Perfetto trace", "give a Chrome trace JSON instead"),
}
#: How files begin that are no traces at all.
_MAGIC = (
    (b"\x89PNG", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF8", "a GIF picture"),
    (b"%PDF", "a PDF document"),
    (b"\x7fELF", "a program"),
    (b"PK\x03\x04", "a zip archive (unpack it first)"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive (unpack it first)"),
    (b"\xfd7zXZ", "an xz archive (unpack it first)"),
    (b"BZh", "a bzip2 archive (unpack it first)"),
    (b"\x80\x04", "a Python pickle"),
    (b"\x80\x05", "a Python pickle"),
    (b"\xff\xfe", "UTF-16 text (convert it to UTF-8)"),
    (b"\xfe\xff", "UTF-16 text (convert it to UTF-8)"),
)

#: What a JSON document without a list of events is, by the fields that give it away.
_FOREIGN = {
    "nodes": "a Chakra execution trace",
    "resourceSpans": "an OpenTelemetry trace",
    "$schema": "a speedscope profile or a JSON schema",
    "segments": "a PyTorch memory snapshot",
    "log": "a HAR file",
}


def refuse_unread(path: Path, head: bytes) -> None:
    """Raise NotATraceError where a file's name or first bytes show that it cannot be read."""
    if path.suffix in _UNREAD:
        kind, instead = _UNREAD[path.suffix]
        raise NotATraceError(f"not read yet: {shown(path)} is {kind}; {instead.format(shown(path))}")
    other = _looks_like(head)
    if other:
        raise NotATraceError(f"not a trace: {shown(path)} looks like {other}")


def _looks_like(head: bytes) -> str | None:
    """What a file that begins so is, where it is no JSON; None where it may be."""
    if head.startswith(MAGIC):
        return None
    for magic, name in _MAGIC:
        if head.startswith(magic):
            return name
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    lowered = text[:512].lower()
    if lowered.startswith((b"<!doctype html", b"<html")):
        return "an HTML page"
    if lowered.startswith(b"<"):
        return "XML or HTML"
    if text.startswith(b"version https://git-lfs"):
        return "a Git LFS pointer (run `git lfs pull`)"
    if text[:1] in (b"{", b"["):
        return None
    if b"\0" in head or sum(byte < 9 for byte in head):
        return "binary data"
    return "plain text" if text else None


def nothing_in(path: Path, fields: Collection[str], damage: Damage, objects: int) -> NotATraceError:
    """The error for a file that holds no event, but perhaps fields and objects of other kinds."""
    file = shown(path)
    foreign = next((kind for key, kind in _FOREIGN.items() if key in fields), None)
    if fields and _EVENTS not in fields:
        what = foreign or f"JSON with the fields {', '.join(map(shown, fields))}"
        return NotATraceError(f"not a timeline: {file} looks like {what}")
    if damage.cut:
        return NotATraceError(f"empty trace: {file} breaks off at byte {damage.cut[0]}, before any event")
    if damage.broken or objects:
        return NotATraceError(f"not a timeline: {file} is a JSON list of something else than events")
    return NotATraceError(f"empty trace: there is no event in {file}")
