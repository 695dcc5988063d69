"""Reading several ranks: who is who, who is missing, and files that cannot be used."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

from bubblescope.errors import NOT_A_TRACE, USAGE, NotATraceError, UsageError
from bubblescope.trace.model import Device
from bubblescope.trace.read import read_trace
from tests.trace.files import damaged, document, kernel, read, read_ranks, rows, said


def test_ranks_come_in_order_whatever_the_files_are_called(tmp_path: Path) -> None:
    trace = read_ranks(
        tmp_path,
        {"z.json": document(kernel(1, 1, "a"), rank=0, world_size=2),
         "a.json": document(kernel(2, 1, "b", pid=1), rank=1, world_size=2)},
    )  # fmt: skip
    assert trace.run.devices == (Device(rank=0, ordinal=0), Device(rank=1, ordinal=1))
    assert trace.run.world_size == 2
    assert rows(trace, "name", "track") == [("a", 1), ("b", 0)]
    assert said(trace) == {}


def test_rank_and_stage_from_the_name_of_the_file(tmp_path: Path) -> None:
    files = {
        f"dp0_pp{rank}_tp0_rank{rank}.1700.pt.trace.json": document(kernel(1, 1), rank=None)
        for rank in (0, 1)
    }
    trace = read_ranks(tmp_path, files)
    assert trace.run.devices == (Device(rank=0, stage=0, ordinal=0), Device(rank=1, stage=1, ordinal=0))
    assert said(trace) == {}


def test_rank_from_the_axes_in_the_name(tmp_path: Path) -> None:
    files = {
        f"1.5-TP-{tp}-PP-{pp}.trace.json": document(kernel(1, 1), rank=None) for tp in (0, 1) for pp in (0, 1)
    }
    trace = read_ranks(tmp_path, files)
    assert [(device.rank, device.stage) for device in trace.run.devices] == [(0, 0), (1, 0), (2, 1), (3, 1)]


def test_rank_of_the_file_itself_wins_over_its_name(tmp_path: Path) -> None:
    assert read(tmp_path, document(kernel(1, 1), rank=3), "rank1.json").run.devices[0].rank == 3


def test_a_missing_rank_is_named(tmp_path: Path) -> None:
    trace = read(tmp_path, document(kernel(1, 1), rank=None), "dp0_pp1_tp0_rank1.json")
    assert said(trace) == {"rank 0": 1}
    trace = read(tmp_path, document(kernel(1, 1), rank=0, world_size=8))
    assert said(trace) == {"ranks 1-7": 7}
    assert damaged(trace) == []


def test_an_unknown_rank_is_said_and_ranks_that_are_unknown_stay_apart(tmp_path: Path) -> None:
    trace = read_ranks(tmp_path, {name: document(kernel(1, 1), rank=None) for name in ("a.json", "b.json")})
    assert trace.run.devices == (Device(ordinal=0), Device(ordinal=0))
    assert said(trace) == {"rank": 2}


def test_a_rank_that_is_there_twice_is_one_device_and_is_said(tmp_path: Path) -> None:
    trace = read_ranks(tmp_path, {name: document(kernel(1, 1)) for name in ("a.json", "b.json")})
    assert trace.run.devices == (Device(rank=0, ordinal=0),)
    assert len(trace.tracks) == 1
    assert said(trace) == {"one recording for rank 0": 2}


def test_documents_in_one_file_are_parts_of_one_recording(tmp_path: Path) -> None:
    documents = [document(kernel(rank, 1, pid=rank), rank=rank, world_size=2) for rank in (0, 1)]
    trace = read(tmp_path, "\n".join(map(json.dumps, documents)))
    assert [device.rank for device in trace.run.devices] == [0, 1]
    assert said(trace) == {}


def test_a_bad_file_among_good_ones_is_said_and_the_rest_is_read(tmp_path: Path) -> None:
    (tmp_path / "rank1.json").write_text("<!DOCTYPE html><html></html>")
    (tmp_path / "notes.txt").write_text("not looked at")
    (tmp_path / "rank2.json").symlink_to(tmp_path / "nowhere.json")
    (tmp_path / "rank0.json.gz").write_bytes(gzip.compress(json.dumps(document(kernel(1, 1))).encode()))
    trace = read_trace(tmp_path)
    assert len(trace.slices) == 1
    assert damaged(trace) == ["file rank1.json", "file rank2.json"]
    assert str(tmp_path) not in str(trace.run.lost)


def test_a_folder_without_traces(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no trace")
    with pytest.raises(NotATraceError, match=r"^no trace in .*: no file there is named like one$") as caught:
        read_trace(tmp_path)
    assert caught.value.status == NOT_A_TRACE
    (tmp_path / "run3").mkdir()
    (tmp_path / "run3" / "rank0.json").write_text("[]")
    with pytest.raises(NotATraceError, match=r"; perhaps you mean .*/run3$"):
        read_trace(tmp_path)
    with pytest.raises(NotATraceError, match=r"empty trace: .*rank0\.json"):
        read_trace(tmp_path / "run3")


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^no such file or folder: .*/nothing$") as caught:
        read_trace(tmp_path / "nothing")
    assert caught.value.status == USAGE


def test_progress_ends_at_the_whole(tmp_path: Path) -> None:
    for rank in (0, 1):
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(document(kernel(1, 1), rank=rank)))
    seen: list[tuple[int, int]] = []
    read_trace(tmp_path, lambda done, total: seen.append((done, total)))
    total = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert seen[-1] == (total, total)
    assert seen == sorted(seen)


def test_what_is_no_file_is_passed_over(tmp_path: Path) -> None:
    # GIVEN a pipe that nobody writes to, named like a trace, beside a trace
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "rank0.json").write_bytes(
        b'[{"ph":"X","cat":"kernel","name":"a","pid":0,"tid":7,"ts":1,"dur":2}]'
    )
    assert len(read_trace(tmp_path).slices) == 1


def test_more_devices_than_a_pipeline_has_are_refused(tmp_path: Path) -> None:
    events = [
        f'{{"ph":"X","cat":"kernel","name":"a","pid":{pid},"tid":7,"ts":1,"dur":2}}' for pid in range(257)
    ]
    path = tmp_path / "many.json"
    path.write_text(f"[{','.join(events)}]")
    with pytest.raises(NotATraceError, match="shows 257 devices"):
        read_trace(path)


def test_a_peer_that_no_rank_can_be_is_unknown(tmp_path: Path) -> None:
    arguments = '{"Collective name":"send","Process Group Name":"1","Dst Rank":1099511627776}'
    path = tmp_path / "rank0.json"
    path.write_text(
        '[{"ph":"X","cat":"kernel","name":"ncclDevKernel_SendRecv","pid":0,"tid":7,"ts":1,"dur":2,'
        f'"args":{arguments}}}]'
    )
    assert read_trace(path).slices[["operation", "peer"]].astype(object).to_numpy().tolist() == [["send", -1]]
