"""What is no trace: one line that says what it is instead, and where."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from bubblescope.errors import NOT_A_TRACE, NotATraceError
from bubblescope.trace.read import read_trace
from tests.trace.files import complete, kernel, label, read

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 12345\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty trace: there is no event in {}"),
        (b" \n ", "empty trace: there is no event in {}"),
        (b"[]", "empty trace: there is no event in {}"),
        (b"{}", "empty trace: there is no event in {}"),
        (b'{"traceEvents":[]}', "empty trace: there is no event in {}"),
        (b'{"schemaVersion":1,"traceEvents":[', "empty trace: {} breaks off at byte 34, before any event"),
        (b'{"traceEvents":[{"ph":', "empty trace: {} breaks off at byte 16, before any event"),
        (b"<!DOCTYPE html><html></html>", "not a trace: {} looks like an HTML page"),
        (b"\n\n<HTML>", "not a trace: {} looks like an HTML page"),
        (b"<?xml version='1.0'?>", "not a trace: {} looks like XML or HTML"),
        (LFS, "not a trace: {} looks like a Git LFS pointer (run `git lfs pull`)"),
        (PNG, "not a trace: {} looks like a PNG picture"),
        (b"PK\x03\x04aaaa", "not a trace: {} looks like a zip archive (unpack it first)"),
        (b"\x80\x04\x95\x0a", "not a trace: {} looks like a Python pickle"),
        (b"\0\1\2\3\4", "not a trace: {} looks like binary data"),
        (b"404 page not found", "not a trace: {} looks like plain text"),
        ('{"a":1}'.encode("utf-16"), "not a trace: {} looks like UTF-16 text (convert it to UTF-8)"),
        (b'{"schema":"1.1","pid":1,"nodes":[{}]}', "not a timeline: {} looks like a Chakra execution trace"),
        (b'{"resourceSpans":[]}', "not a timeline: {} looks like an OpenTelemetry trace"),
        (b'{"name":"x","version":"1"}', "not a timeline: {} looks like JSON with the fields name, version"),
        (b"[1,2,3]", "not a timeline: {} is a JSON list of something else than events"),
        (b'["a"]', "not a timeline: {} is a JSON list of something else than events"),
    ],
)
def test_what_it_is_instead(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "trace.json"
    for written in (content, gzip.compress(content)):
        path.write_bytes(written)
        with pytest.raises(NotATraceError) as caught:
            read_trace(path)
        assert str(caught.value) == message.format(path)
        assert caught.value.status == NOT_A_TRACE


@pytest.mark.parametrize(
    "events",
    [
        [{"name": "tick", "ph": "i", "ts": 829, "pid": 1, "tid": 1, "s": "t"}],
        [{"name": "util", "ph": "C", "ts": 1, "args": {"busy": 1}}],
        [label("process_name", "python")],
    ],
)
def test_events_without_slices(tmp_path: Path, events: list[Any]) -> None:
    with pytest.raises(NotATraceError, match=r"^no slices in this trace: .*trace\.json holds only instants"):
        read(tmp_path, events)


def test_objects_that_are_no_events(tmp_path: Path) -> None:
    with pytest.raises(
        NotATraceError, match=r"^not a timeline: .*trace\.json is a JSON list of something else"
    ):
        read(tmp_path, [{"a": 1}, {"b": [{"c": 2}]}])


def test_a_report_of_nsight_systems_is_to_be_exported(tmp_path: Path) -> None:
    with pytest.raises(NotATraceError, match=r"^not read yet: .* is an Nsight Systems report") as caught:
        read(tmp_path, b"anything", "report.nsys-rep")
    path = tmp_path / "report.nsys-rep"
    assert str(caught.value).endswith(f"; export it first: nsys export --type sqlite {path}")


def test_a_foreign_file_cannot_write_to_the_terminal(tmp_path: Path) -> None:
    with pytest.raises(NotATraceError) as caught:
        read(tmp_path, json.dumps({"\x1b[31m\n": 1}))
    assert str(caught.value).isprintable()


def test_a_trace_of_calls_alone_is_no_error(tmp_path: Path) -> None:
    trace = read(tmp_path, [complete("python_function", "f", 1, 1)])
    assert len(trace.slices) == 0
    assert len(trace.run.devices) == 1


@pytest.mark.parametrize("times", [[10**30], ["soon"]])
def test_slices_at_no_time_leave_an_empty_table(tmp_path: Path, times: list[Any]) -> None:
    trace = read(tmp_path, [kernel(time, 1) for time in times])
    assert len(trace.slices) == 0
