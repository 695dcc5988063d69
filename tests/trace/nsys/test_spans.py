"""Spans of stages, found again in an export by the names of their ranges."""

from __future__ import annotations

from pathlib import Path

import pytest

from bubblescope.analyzers.analysis import analyze
from bubblescope.trace.frames import UNKNOWN
from bubblescope.trace.model import Trace
from bubblescope.trace.nsys.spans import told_by
from bubblescope.trace.read import read_trace
from tests.trace.files import rows
from tests.trace.nsys.exports import SEND_RECV, STARTED, Export

MS = 1_000_000
COLUMNS = ["stage", "device", "kind", "microbatch", "begin_ns", "end_ns", "clock"]


def spans(trace: Trace, columns: list[str] = COLUMNS) -> list[tuple[object, ...]]:
    return list(trace.spans[columns].itertuples(index=False, name=None))


def test_a_name_tells_the_span() -> None:
    told = told_by(
        "forward stage=1 rank=3 layers=27-36 phase=prefill step=9 microbatch=7 tokens=4096 prefix=8192 peer=0"
    )
    assert told == {
        "kind": "forward", "stage": 1, "rank": 3, "layer_begin": 27, "layer_end": 36, "phase": "prefill",
        "step": 9, "microbatch": 7, "tokens": 4096, "prefix": 8192, "peer": 0, "bytes": UNKNOWN,
    }  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        "forward",
        "forward step=1",
        "dance stage=1",
        "forward stage=x",
        "xforward stage=1",
        "forward stage=1 ",
        "forward stage=٣",
    ],
)
def test_other_names_tell_none(name: str) -> None:
    assert told_by(name) is None


def test_what_is_new_or_no_number_is_passed_over() -> None:
    told = told_by("send stage=0 microbatch=9999999999999 colour=red peer=-1 phase=odd layers=9")
    assert told is not None
    assert (told["microbatch"], told["peer"], told["phase"], told["layer_begin"]) == (-1, -1, "unknown", -1)


def test_a_span_is_what_its_device_did_of_what_was_launched_in_it(tmp_path: Path) -> None:
    # GIVEN a forward that the host is done with before the device begins, and a schedule without a device
    export = Export().range(0, 10, "schedule stage=1 microbatch=4")
    export.range(20, 90, "forward stage=1 microbatch=4 tokens=7", kind=STARTED)
    export.kernel(500, 600, called=(30, 1)).kernel(620, 700, called=(80, 1)).kernel(900, 950, called=(95, 1))
    trace = read_trace(export.write(tmp_path / "x.sqlite"))
    assert spans(trace) == [
        (1, 0, "schedule", 4, 0, 10, "host"),
        (1, 0, "forward", 4, 500, 700, "device"),
    ]
    assert trace.run.devices[0].stage == 1
    # AND its work says so; what was launched outside is nobody's
    assert rows(trace, "begin_ns", "microbatch", "span")[-3:] == [
        (500, 4, "forward"), (620, 4, "forward"), (900, -1, "")
    ]  # fmt: skip


def test_a_receive_begins_when_it_is_asked_for(tmp_path: Path) -> None:
    # GIVEN an engine that launches what it receives only when it has heard of it
    export = Export().range(0, 310, "recv stage=1 microbatch=0 peer=0", kind=STARTED)
    export.kernel(320, 400, SEND_RECV, called=(305, 1))
    assert [row[2:] for row in spans(read_trace(export.write(tmp_path / "x.sqlite")))] == [
        ("recv", 0, 0, 400, "device")
    ]


def test_an_inner_span_takes_its_time_from_the_outer(tmp_path: Path) -> None:
    export = Export().range(0, 100, "forward stage=0").range(10, 30, "embed stage=0")
    export.kernel(200, 300, called=(15, 1)).kernel(300, 800, called=(50, 1))
    trace = read_trace(export.write(tmp_path / "x.sqlite"))
    assert [row[2:6] for row in spans(trace)] == [("embed", -1, 200, 300), ("forward", -1, 300, 800)]


def test_a_send_that_is_open_round_the_next_forward_is_only_its_communication(tmp_path: Path) -> None:
    export = Export().range(0, 100, "send stage=0 microbatch=0 peer=1", kind=STARTED)
    export.range(20, 60, "forward stage=0 microbatch=1", kind=STARTED)
    export.kernel(200, 300, SEND_RECV, called=(5, 1)).kernel(300, 400, called=(30, 1))
    trace = read_trace(export.write(tmp_path / "x.sqlite"))
    assert [row[2:6] for row in spans(trace)] == [("send", 0, 200, 300), ("forward", 1, 300, 400)]


def pipeline(ranks: bool = True, marked: bool = True) -> Export:
    """Three stages of one layer each and three microbatches of 4 ms a stage, messages of 1 ms: work on the
    devices begins 100 ms after the host launched it."""
    export = Export()
    late = 100 * MS
    for stage in range(3):
        pid, rank = 100 + stage, f" rank={10 + stage}" if ranks else ""
        place = f"stage={stage}{rank} layers={stage}-{stage + 1}"
        for number in range(3):
            at = (stage + number) * 5 * MS
            words = f"{place} phase=prefill microbatch={number} tokens=100 prefix={100 * number}"
            parts = [("forward", at, at + 4 * MS)]
            if stage > 0:
                parts.insert(0, (f"recv {words} peer={stage - 1}", at - MS, at))
            if stage < 2:
                parts.append((f"send {words} peer={stage + 1}", at + 4 * MS, at + 5 * MS))
            for name, begin, end in parts:
                kind = name.partition(" ")[0]
                if marked:
                    export.range(
                        begin, end - 10, name if " " in name else f"{name} {words}", pid, kind=STARTED
                    )
                kernel = "gemm" if kind == "forward" else SEND_RECV
                export.kernel(late + begin, late + end, kernel, pid, stage, called=(begin + 5, 1))
    return export


def test_a_pipeline_is_analysed_as_one(tmp_path: Path) -> None:
    trace = read_trace(pipeline().write(tmp_path / "x.sqlite"))
    assert [(device.rank, device.stage) for device in trace.run.devices] == [(10, 0), (11, 1), (12, 2)]
    kernels = [row[1:] for row in rows(trace, "category", "operation", "peer") if row[0] == "kernel"]
    assert set(kernels) == {("", -1), ("send", 11), ("recv", 10), ("send", 12), ("recv", 11)}
    found = analyze(trace)
    # Window 100 to 124 ms; every stage computes 3 x 4 ms, and moves data 3 (6 in the middle) x 1 ms.
    assert found.window_ns == (100 * MS, 124 * MS)
    assert [stage.layers for stage in found.stages] == [1, 1, 1]
    assert [stage.states_ns["compute"] for stage in found.stages] == [12 * MS] * 3
    assert (found.spans["kind"] == "forward").sum() == 9


def test_without_ranks_the_stage_is_the_rank_s_place(tmp_path: Path) -> None:
    found = analyze(read_trace(pipeline(ranks=False).write(tmp_path / "x.sqlite")))
    assert [stage.states_ns["compute"] for stage in found.stages] == [12 * MS] * 3
    assert found.bubble_ratio is not None


def test_without_our_ranges_two_processes_are_a_pipeline_by_who_sends_to_whom(tmp_path: Path) -> None:
    # GIVEN two processes of which one only sends and the other only receives, by NCCL's own ranges
    export = Export()
    for number in range(4):
        at = 1000 * number
        export.kernel(at, at + 600, pid=100, called=(at, 1))
        export.range(at + 10, at + 20, "ncclSend", 100).range(at + 10, at + 20, "ncclRecv", 200)
        export.kernel(at + 600, at + 700, SEND_RECV, 100, called=(at + 15, 1))
        export.kernel(at + 100, at + 705, SEND_RECV, 200, 1, called=(at + 15, 1))
        export.kernel(at + 705, at + 900, pid=200, device=1, called=(at + 30, 1))
    found = analyze(read_trace(export.write(tmp_path / "x.sqlite")))
    # THEN the second waited 500 ns for each but the first, until which its pipeline filled
    assert found.pipeline
    assert [stage.devices for stage in found.stages] == [(0,), (1,)]
    assert found.stages[1].states_ns["starved"] == 3 * 500
