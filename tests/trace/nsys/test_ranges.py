"""Ranges of an export: as the host marked them, and as the devices saw them."""

from __future__ import annotations

from pathlib import Path

from bubblescope.trace.frames import UNKNOWN
from bubblescope.trace.model import Trace
from bubblescope.trace.read import read_trace
from tests.trace.files import rows, said
from tests.trace.nsys.exports import GEMM, SEND_RECV, STARTED, Export, thread


def of_category(trace: Trace, category: str) -> list[tuple[str, int, int]]:
    return [row[1:] for row in rows(trace, "category", "name", "begin_ns", "end_ns") if row[0] == category]


def test_a_range_is_also_shown_where_the_devices_did_what_was_launched_within(tmp_path: Path) -> None:
    # GIVEN a step on the host from 0 to 100 with an inner range, whose kernels run later and on two streams
    export = Export().range(0, 100, "step").range(40, 60, "inner")
    export.kernel(200, 300, called=(10, 1))
    export.kernel(310, 400, called=(50, 1))
    export.kernel(250, 500, stream=13, called=(70, 1))
    # and one that another thread launched meanwhile
    export.kernel(600, 700, called=(50, 2))
    trace = read_trace(export.write(tmp_path / "x.sqlite"))
    assert of_category(trace, "host_range") == [("step", 0, 100), ("inner", 40, 60)]
    assert of_category(trace, "device_range") == [("step", 200, 400), ("step", 250, 500), ("inner", 310, 400)]


def test_ranges_that_cross_each_have_what_was_launched_in_them(tmp_path: Path) -> None:
    export = Export().range(0, 50, "a", kind=STARTED).range(30, 90, "b", kind=STARTED)
    for at in (10, 40, 70):
        export.kernel(100 + at, 105 + at, called=(at, 1))
    trace = read_trace(export.write(tmp_path / "x.sqlite"))
    assert of_category(trace, "device_range") == [("a", 110, 145), ("b", 140, 175)]


def test_a_batch_named_by_vllm_gives_its_kernels_a_phase(tmp_path: Path) -> None:
    export = Export().range(0, 100, "execute_context_1(4096)_generation_0(0)")
    export.kernel(200, 300, called=(10, 1))
    trace = read_trace(export.write(tmp_path / "x.sqlite"))
    assert trace.run.engine == "vllm"
    assert of_category(trace, "device_range") == [("execute_context_1(4096)_generation_0(0)", 200, 300)]


def test_a_name_may_stand_among_the_strings_of_the_export(tmp_path: Path) -> None:
    export = Export()
    export.add(
        "NVTX_EVENTS",
        start=0,
        end=10,
        eventType=59,
        textId=export.string("registered"),
        globalTid=thread(1, 1),
    )
    assert rows(read_trace(export.write(tmp_path / "x.sqlite")), "name") == [("registered",)]


def test_operators_of_torch_are_dropped_beside_device_work(tmp_path: Path) -> None:
    export = Export().range(0, 5, "aten::mm, op_id = 7").range(5, 9, "layer, seq = 3").range(9, 12, "mine")
    alone = read_trace(export.write(tmp_path / "alone.sqlite"))
    assert rows(alone, "category") == [("host_op",), ("host_op",), ("host_range",)]
    beside = read_trace(export.kernel(20, 30).write(tmp_path / "beside.sqlite"))
    assert rows(beside, "name") == [("mine",), (GEMM,)]


def nccl(export: Export, *calls: str, at: int, pid: int, end: int) -> None:
    """A group of calls to NCCL at a time, and its kernel, which ends at `end`."""
    for number, call in enumerate(("ncclGroupStart", *calls, "ncclGroupEnd")):
        export.range(at + 10 * number, at + 10 * number + 9, call, pid)
    export.kernel(end - 50, end, SEND_RECV, pid, called=(at + 10 * len(calls) + 12, 1))


def test_a_kernel_of_a_group_that_only_sends_is_a_send(tmp_path: Path) -> None:
    export = Export()
    nccl(export, "ncclSend", "ncclSend", at=0, pid=100, end=1000)
    nccl(export, "ncclRecv", at=0, pid=200, end=1005)
    nccl(export, "ncclSend", "ncclRecv", at=2000, pid=100, end=3000)
    export.kernel(4000, 4010, SEND_RECV, 100)
    trace = read_trace(export.write(tmp_path / "x.sqlite"))
    kernels = [row for row in rows(trace, "category", "operation", "end_ns", "peer") if row[0] == "kernel"]
    assert [row[1:] for row in kernels] == [
        ("send", 1000, UNKNOWN),
        ("recv", 1005, UNKNOWN),
        ("unknown", 3000, UNKNOWN),
        ("unknown", 4010, UNKNOWN),
    ]


def test_a_send_outside_of_a_group_is_one_too(tmp_path: Path) -> None:
    export = Export().range(0, 20, "ncclSend").kernel(50, 60, SEND_RECV, called=(10, 1))
    trace = read_trace(export.write(tmp_path / "x.sqlite"))
    assert ("kernel", "send") in rows(trace, "category", "operation")


def test_a_range_of_torch_tells_the_peer(tmp_path: Path) -> None:
    export = Export().range(0, 40, "nccl:send 0->1").range(10, 30, "ncclSend")
    export.kernel(50, 60, SEND_RECV, called=(20, 1))
    trace = read_trace(export.write(tmp_path / "x.sqlite"))
    assert [row for row in rows(trace, "category", "operation", "peer") if row[0] == "kernel"] == [
        ("kernel", "send", 1)
    ]


def test_ranges_of_processes_that_did_nothing_on_a_device_are_left_out_and_counted(tmp_path: Path) -> None:
    export = (
        Export().range(0, 10, "mine", 100).range(0, 10, "http", 300).range(5, 10, "schedule stage=0", 400)
    )
    trace = read_trace(export.kernel(20, 30, pid=100).write(tmp_path / "x.sqlite"))
    assert [name for _, name in rows(trace, "begin_ns", "name")] == ["mine", "schedule stage=0", GEMM]
    assert said(trace)["ranges of processes without device work"] == 1
    assert len(trace.run.devices) == 2
