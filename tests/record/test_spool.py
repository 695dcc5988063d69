"""Spool files that are foreign, newer, cut off, damaged or hostile."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblescope.collectors._bubblescope_inject import layout
from bubblescope.errors import NotATraceError
from bubblescope.record.spool import LOST, read_spool

NAME = "00000000000000000001-7-abc-{:06d}.spool"


def header(version: int = layout.VERSION, number: int = 0, slot: int = layout.SLOT) -> bytes:
    counts = (0, 0, 0)
    packed = layout.HEADER.pack(
        layout.MAGIC, version, slot, layout.HEADER_SIZE, 7, number, 100, 1100, *counts, b"boot", b"host"
    )
    return packed.ljust(layout.HEADER_SIZE, b"\0")


def text(number: int, value: bytes) -> bytes:
    return layout.TEXT_SLOT.pack(value, number, len(value), 0, layout.TEXT, layout.COMPLETE)


def stage(number: int = 0) -> bytes:
    return layout.STAGE_SLOT.pack(-1, 0, -1, -1, -1, -1, 0, 0, number, layout.STAGE, layout.COMPLETE)


def span(
    microbatch: int,
    begin: int = 10,
    end: int = 20,
    stage: int = 0,
    kind: int = 0,
    phase: int = 0,
    clock: int = 1,
) -> bytes:
    return layout.SPAN_SLOT.pack(
        -1, microbatch, -1, begin, end, -1, -1, -1, -1, stage, -1, kind, phase, clock, 0,
        layout.SPAN, layout.COMPLETE,
    )  # fmt: skip


def write(folder: Path, *parts: bytes, number: int = 0) -> str:
    (folder / NAME.format(number)).write_bytes(b"".join(parts))
    return str(folder)


def test_a_file_written_by_hand_as_the_format_says(tmp_path: Path) -> None:
    folder = write(tmp_path, header(), text(0, b""), stage(), span(3), span(4, begin=30, end=35))
    ((process,), unreadable) = read_spool(folder)
    assert (process.pid, process.clock, process.host, process.wall_offset_ns) == (7, "boot", "host", 1000)
    assert process.spans["microbatch"].tolist() == [3, 4]
    assert process.begins_ns is None and not process.running and unreadable == []
    assert process.lost == dict.fromkeys(LOST, 0)


def test_a_process_whose_first_file_went_begins_with_its_next_one(tmp_path: Path) -> None:
    folder = write(tmp_path, header(number=1), text(0, b""), stage(), span(3), number=1)
    ((process,), _) = read_spool(folder)
    assert process.begins_ns == 100


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (span(9, begin=20, end=10), "damaged"),
        (span(9, begin=-1), "damaged"),
        (span(9, end=2**62 + 1), "damaged"),
        (span(9, stage=5), "damaged"),
        (span(9, kind=len(layout.KINDS)), "damaged"),
        (span(9, phase=4), "damaged"),
        (span(9, clock=2), "damaged"),
        (layout.INSTANT_SLOT.pack(10, 99, 0, layout.INSTANT, layout.COMPLETE), "damaged"),
        (span(9)[:-1] + b"\x03", "damaged"),
        (span(9)[:-2] + b"\x63\x02", "unknown"),
        (span(9)[:-1] + b"\x00", "torn"),
        (bytes(layout.SLOT), "torn"),
    ],
)
def test_one_bad_slot_between_good_ones_is_counted(bad: bytes, reason: str, tmp_path: Path) -> None:
    folder = write(tmp_path, header(), text(0, b""), stage(), span(1), bad, span(2))
    ((process,), _) = read_spool(folder)
    assert process.spans["microbatch"].tolist() == [1, 2]
    assert process.lost == {**dict.fromkeys(LOST, 0), reason: 1}


def test_a_file_cut_off_within_a_slot_keeps_the_slots_before(tmp_path: Path) -> None:
    folder = write(tmp_path, header(), text(0, b""), stage(), span(1), span(2)[:40])
    ((process,), _) = read_spool(folder)
    assert process.spans["microbatch"].tolist() == [1]


def test_a_text_with_a_piece_missing_makes_what_refers_to_it_damaged(tmp_path: Path) -> None:
    # GIVEN a name of 60 bytes of which only the second piece was written
    half = layout.TEXT_SLOT.pack(b"12345678", 1, 60, 1, layout.TEXT, layout.COMPLETE)
    named = layout.COUNTER_SLOT.pack(10, 1.0, 1, 0, layout.COUNTER, layout.COMPLETE)
    folder = write(tmp_path, header(), text(0, b""), stage(), half, named)
    ((process,), _) = read_spool(folder)
    assert len(process.samples) == 0
    assert process.lost["damaged"] == 1


@pytest.mark.parametrize("content", [b"", b"BUBS", b"\x89PNG" * 100, header(slot=32), header()[:200]])
def test_what_is_no_spool_file_is_named_and_the_others_are_read(content: bytes, tmp_path: Path) -> None:
    write(tmp_path, header(), text(0, b""), stage(), span(1))
    (tmp_path / "00000000000000000002-8-def-000000.spool").write_bytes(content)
    (tmp_path / "notes.txt").write_text("not looked at")
    processes, unreadable = read_spool(str(tmp_path))
    assert [len(process.spans) for process in processes] == [1]
    assert unreadable == [str(tmp_path / "00000000000000000002-8-def-000000.spool")]


def test_a_newer_version_is_refused_in_words(tmp_path: Path) -> None:
    folder = write(tmp_path, header(version=2))
    with pytest.raises(NotATraceError, match="version 2 of the spool format"):
        read_spool(folder)


def test_a_folder_without_spool_files_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(NotATraceError, match="no spool files"):
        read_spool(str(tmp_path))


@given(slots=st.lists(st.binary(min_size=62, max_size=62), max_size=20), data=st.data())
def test_no_bytes_at_all_make_the_reader_fail(
    slots: list[bytes], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tails = data.draw(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 3)), min_size=20, max_size=20))
    body = b"".join(slot + bytes(tail) for slot, tail in zip(slots, tails, strict=False))
    folder = write(tmp_path_factory.mktemp("spool"), header(), text(0, b""), stage(), body)
    ((process,), _) = read_spool(folder)
    for rows in (process.spans, process.instants, process.samples):
        assert set(np.unique(rows["stage"]).tolist()) <= set(process.stages)
    for rows in (process.instants, process.samples):
        assert all(row["name"] < len(process.texts) for row in rows)
