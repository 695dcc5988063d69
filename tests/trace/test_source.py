"""Bytes out of a file: content decides, and a cut or damaged file is read as far as it goes."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblescope.errors import UsageError
from bubblescope.trace.source import Source, shown

TEXT = b"".join(b"line %d of a file that compresses well\n" % i for i in range(20_000))


def everything(path: Path, size: int = 1 << 20) -> tuple[bytes, str | None]:
    with Source(path) as source:
        pieces = []
        while piece := source.read(size):
            pieces.append(piece)
        assert source.offset == sum(map(len, pieces))
        return b"".join(pieces), source.broken


@pytest.mark.parametrize("size", [7, 1000, 1 << 20])
@pytest.mark.parametrize(
    "content",
    [
        TEXT,
        gzip.compress(TEXT),
        gzip.compress(TEXT[:99]) + gzip.compress(TEXT[99:]),
        gzip.compress(TEXT) + b"\0" * 512,
    ],
    ids=["plain", "gzip", "two gzip streams", "gzip padded with zeros"],
)
def test_content_decides(tmp_path: Path, content: bytes, size: int) -> None:
    path = tmp_path / "any.name"
    path.write_bytes(content)
    assert everything(path, size) == (TEXT, None)


def test_a_cut_gzip_file_gives_its_prefix(tmp_path: Path) -> None:
    path = tmp_path / "cut.gz"
    packed = gzip.compress(TEXT)
    for end in range(2, len(packed), 997):
        path.write_bytes(packed[:end])
        read, broken = everything(path)
        assert TEXT.startswith(read)
        assert broken == "the gzip stream is cut off"
    assert len(read) > len(TEXT) * 0.9


def test_a_damaged_gzip_file_gives_what_comes_before(tmp_path: Path) -> None:
    path = tmp_path / "damaged.gz"
    packed = bytearray(gzip.compress(TEXT))
    packed[-8] ^= 1  # the checksum at the end: all of the content is there
    path.write_bytes(packed)
    assert everything(path) == (TEXT, "the gzip stream is damaged")


@given(st.binary(max_size=100))
def test_any_bytes_after_the_magic_number_are_survived(
    tmp_path_factory: pytest.TempPathFactory, rest: bytes
) -> None:
    path = tmp_path_factory.mktemp("any") / "file"
    path.write_bytes(b"\x1f\x8b" + rest)
    assert everything(path)[1] is not None


def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^cannot read .*no-file: No such file or directory$"):
        Source(tmp_path / "no-file")
    with pytest.raises(UsageError, match=r"^cannot read .*: Is a directory$"):
        Source(tmp_path)


def test_a_name_cannot_break_the_line() -> None:
    assert shown("a\nb\x1b[31m\udcff") == "a\\nb\\x1b[31m\\udcff"
    assert shown("Größe 1.json") == "Größe 1.json"


def test_progress_counts_the_bytes_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "trace.gz"
    path.write_bytes(gzip.compress(TEXT))
    counts: list[int] = []
    with Source(path, counts.append) as source:
        while source.read(1 << 16):
            pass
    assert sum(counts) == path.stat().st_size
