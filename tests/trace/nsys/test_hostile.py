"""A database that was damaged, or made to do harm: nothing in it is run, and nothing is written."""

from __future__ import annotations

import gzip
import shutil
import sqlite3
from pathlib import Path
from random import Random

import pytest

from bubblescope.analyzers.analysis import analyze
from bubblescope.errors import BubblescopeError, NotATraceError
from bubblescope.trace.nsys.database import Database
from bubblescope.trace.read import read_trace
from tests.trace.files import damaged, rows, said
from tests.trace.nsys.exports import SEND_RECV, Export, process, thread
from tests.trace.nsys.mutations import mutate


def small() -> Export:
    return Export().kernel(0, 5).range(0, 9, "step")


@pytest.mark.parametrize(
    "statements",
    [
        # A view in place of a table, which refers to itself, or never ends.
        ["DROP TABLE NVTX_EVENTS", "CREATE VIEW NVTX_EVENTS AS SELECT * FROM NVTX_EVENTS"],
        [
            "DROP TABLE NVTX_EVENTS",
            "CREATE VIEW NVTX_EVENTS AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
            "SELECT i AS start, i AS \"end\", 59 AS eventType, 'x' AS text, 1 AS globalTid FROM n",
        ],
        # A table without rows of its own.
        ["DROP TABLE NVTX_EVENTS", "CREATE VIRTUAL TABLE NVTX_EVENTS USING fts5(start, text)"],
    ],
)
def test_only_ordinary_tables_are_read(tmp_path: Path, statements: list[str]) -> None:
    trace = read_trace(small().write(tmp_path / "x.sqlite", statements))
    assert rows(trace, "category") == [("kernel",)]
    assert "NVTX ranges" in said(trace)


def test_no_column_is_computed(tmp_path: Path) -> None:
    # GIVEN a name that would be 400 MB long
    computed = "text TEXT AS (hex(zeroblob(200000000)))"
    path = small().write(
        tmp_path / "x.sqlite",
        [
            "DROP TABLE NVTX_EVENTS",
            f'CREATE TABLE NVTX_EVENTS (start, "end", eventType, globalTid, {computed})',
            f"INSERT INTO NVTX_EVENTS VALUES (0, 9, 59, {thread(100, 1)})",
        ],
    )
    with Database(path) as database:
        assert database.tables["NVTX_EVENTS"] == {"start", "end", "eventType", "globalTid"}
    assert ("host_range", "") in rows(read_trace(path), "category", "name")


def test_values_of_other_types_are_no_values(tmp_path: Path) -> None:
    export = small().kernel(10, 15).kernel(20, 25)
    first, second, third = export.rows["CUPTI_ACTIVITY_KIND_KERNEL"]
    first["start"], second["end"], third["streamId"] = "soon", 1e300, b"\0" * 50_000_000
    export.rows["StringIds"][0]["value"] = b"\xff\xfe"
    trace = read_trace(export.write(tmp_path / "x.sqlite"))
    assert rows(trace, "begin_ns", "name")[1:] == [(20, "kernel without a name")]
    assert said(trace)["events without a time"] == 1
    assert said(trace)["unfinished slices"] == 1


def test_a_long_name_is_cut_and_what_is_not_utf8_replaced(tmp_path: Path) -> None:
    path = (
        Export()
        .kernel(0, 5, "k" * 3_000_000)
        .write(tmp_path / "x.sqlite", ["INSERT INTO StringIds VALUES (99, CAST(x'61ff62' AS TEXT))"])
    )
    with sqlite3.connect(path) as file:
        file.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT 10, 15, 0, 1, 7, 2, 1, 99, 99, 99")
    file.close()
    assert sorted(len(name) for (name,) in rows(read_trace(path), "name")) == [3, 4096]


def test_nothing_is_written_beside_it(tmp_path: Path) -> None:
    folder = tmp_path / "only"
    folder.mkdir()
    path = small().write(folder / "x.sqlite", ["PRAGMA journal_mode = WAL"])
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    folder.chmod(0o500)
    try:
        assert len(read_trace(path).slices) == 2
    finally:
        folder.chmod(0o700)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


def test_what_is_not_yet_in_the_file_is_said(tmp_path: Path) -> None:
    path = small().write(tmp_path / "x.sqlite")
    (tmp_path / "x.sqlite-wal").write_bytes(b"pages")
    assert damaged(read_trace(path)) == ["the latest of x.sqlite"]


def test_of_a_file_that_is_cut_off_the_rest_is_read(tmp_path: Path) -> None:
    export = small()
    for number in range(5000):
        export.range(10 * number, 10 * number + 5, f"range {number}")
    whole = export.write(tmp_path / "whole.sqlite").read_bytes()
    path = tmp_path / "x.sqlite"
    path.write_bytes(whole[: len(whole) // 2])
    trace = read_trace(path)
    assert "the rest of x.sqlite" in damaged(trace)
    assert "rows of NVTX_EVENTS" in damaged(trace)


@pytest.mark.parametrize("kept", [16, 100, 4000])
def test_of_a_file_without_its_first_page_nothing_is(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "x.sqlite"
    path.write_bytes(small().write(tmp_path / "whole.sqlite").read_bytes()[:kept])
    with pytest.raises(NotATraceError, match=r"^damaged: .*x\.sqlite"):
        read_trace(path)


def test_any_damage_is_one_line_or_a_report_of_it(tmp_path: Path) -> None:
    """One byte in a thousand is changed, everywhere in turn."""
    export = small()
    for number in range(300):
        export.kernel(10 * number, 10 * number + 5, called=(number, 1))
    whole = export.write(tmp_path / "whole.sqlite").read_bytes()
    path = tmp_path / "x.sqlite"
    read = 0
    for shift in range(40):
        content = bytearray(whole)
        content[100 + shift :: 1000] = bytes(byte ^ 0x5A for byte in content[100 + shift :: 1000])
        path.write_bytes(content)
        try:
            read_trace(path)
            read += 1
        except NotATraceError as error:
            assert "x.sqlite" in str(error)
    assert read > 0


def with_one_table(folder: Path, table: str) -> Path:
    path = folder / "x.sqlite"
    with sqlite3.connect(path) as file:
        file.execute(f"CREATE TABLE {table}")
    file.close()
    return path


def test_a_database_of_something_else(tmp_path: Path) -> None:
    path = with_one_table(tmp_path, "orders (id)")
    with pytest.raises(NotATraceError, match=r"^not a trace: .* is an SQLite database without the tables"):
        read_trace(path)


def test_an_export_without_events(tmp_path: Path) -> None:
    path = Export().write(tmp_path / "x.sqlite", ["CREATE TABLE NVTX_EVENTS (start)"])
    with pytest.raises(NotATraceError, match=r"^empty trace: there is no event in .*x\.sqlite"):
        read_trace(path)


def test_an_export_without_a_table_of_events(tmp_path: Path) -> None:
    """As nsys writes it of a program that used neither CUDA nor NVTX."""
    path = with_one_table(tmp_path, "TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER)")
    with pytest.raises(NotATraceError, match=r"^empty trace: .*x\.sqlite is an .* neither kernels nor NVTX"):
        read_trace(path)


def test_a_packed_export_is_to_be_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite.gz"
    path.write_bytes(gzip.compress(small().write(tmp_path / "x.sqlite").read_bytes()))
    with pytest.raises(NotATraceError, match="packed SQLite file or a pipe; give the file itself"):
        read_trace(path)


def test_a_path_means_nothing_to_sqlite(tmp_path: Path) -> None:
    """Neither its options nor its escapes."""
    path = tmp_path / "a%20b?mode=memory#c.sqlite"
    shutil.copy(small().write(tmp_path / "x.sqlite"), path)
    assert len(read_trace(path).slices) == 2


def test_more_processes_than_any_job_has_are_refused(tmp_path: Path) -> None:
    export = Export()
    for pid in range(1100):
        export.kernel(pid, pid + 1, pid=pid)
    path = export.write(tmp_path / "x.sqlite")
    with pytest.raises(NotATraceError, match=r"x\.sqlite shows 1100 processes; up to 1024 can be looked at"):
        read_trace(path)


def whole() -> Export:
    """Of two processes, with a row in every table that is read."""
    export = Export()
    for stage, pid in enumerate((100, 200)):
        for step in range(6):
            at = 1000 * step
            told = f"forward stage={stage} rank={stage} step={step} microbatch={step} tokens=512 layers=0-9"
            export.range(at, at + 600, told, pid).range(at + 7, at + 30, "ncclGroupEnd", pid)
            export.range(at + 5, at + 7, "ncclRecv" if stage else "ncclSend", pid)
            export.kernel(at + 100, at + 600, pid=pid, device=stage, called=(at + 10, 1))
            export.kernel(at + 650, at + 850, SEND_RECV, pid=pid, device=stage, called=(at + 20, 1))
        on_device = {"start": 5, "end": 9, "deviceId": 0, "streamId": 7, "globalPid": process(pid)}
        export.add("CUPTI_ACTIVITY_KIND_MEMCPY", **on_device, correlationId=99, bytes=4, copyKind=1)
        export.add("CUPTI_ACTIVITY_KIND_MEMSET", **on_device, correlationId=98, bytes=4)
        export.add("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", **on_device, correlationId=97, graphId=4)
        export.add("PROCESSES", globalPid=process(pid), pid=pid, name="python")
        export.add("ThreadNames", nameId=export.string("engine"), globalTid=thread(pid, 1))
        export.add("TARGET_INFO_CUDA_DEVICE", gpuId=stage, cudaId=stage, pid=pid)
        export.add("TARGET_INFO_GPU", id=stage, name="H200", totalMemory=1, computeMajor=9, computeMinor=0)
    export.add("TARGET_INFO_SYSTEM_ENV", name="Hostname", value="node")
    return export.add("TARGET_INFO_SESSION_START_TIME", utcEpochNs=1 << 60)


def test_an_export_that_makes_no_sense_is_read_or_refused_in_one_line(tmp_path: Path) -> None:
    original = whole().write(tmp_path / "original.sqlite")
    path = tmp_path / "x.sqlite"
    read = 0
    for seed in range(30):
        shutil.copyfile(original, path)
        mutate(path, Random(seed))
        try:
            analyze(read_trace(path))
            read += 1
        except BubblescopeError as error:
            assert len(str(error).splitlines()) == 1
    assert read > 15
