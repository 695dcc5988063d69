"""What torch's profiler writes: devices, ranks, clocks, and messages between ranks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bubblescope.trace.model import Clock, Device, Group
from tests.trace.files import (
    SEND_RECV,
    complete,
    damaged,
    document,
    half,
    kernel,
    label,
    read,
    read_ranks,
    rows,
    said,
)

H200 = {
    "id": 0,
    "name": "NVIDIA H200",
    "totalGlobalMem": 150_109_880_320,
    "computeMajor": 9,
    "computeMinor": 0,
}
PAIR = [{"pg_name": "15", "pg_desc": "pp", "pg_size": 2, "ranks": [0, 1]}]


def test_devices_tracks_and_slices(tmp_path: Path) -> None:
    # GIVEN one rank with a kernel, a copy, a fill and a range on its device, and much on the host
    trace = read(
        tmp_path,
        document(
            label("process_name", "python3", pid=0),
            label("thread_name", "stream 7 ", pid=0, tid=7),
            complete("python_function", "forward", 0, 100, pid=99, tid=99),
            complete("cpu_op", "aten::mm", 1, 2, pid=99, tid=99),
            complete("cuda_runtime", "cudaLaunchKernel", 1, 2, pid=99, tid=99, correlation=5),
            complete("user_annotation", "step", 0, 90, pid=99, tid=99),
            kernel(10.001, 0.25, "gemm", correlation=5),
            complete("gpu_memcpy", "Memcpy DtoD", 20, 1.5, tid=8, bytes=4096),
            complete("gpu_memset", "Memset", 22, 1),
            complete("gpu_user_annotation", "step", 10, 14),
            deviceProperties=[H200],
        ),
    )
    # THEN device work and marked ranges are there, to the nanosecond, and nothing else
    assert rows(trace, "name", "category", "begin_ns", "end_ns", "correlation", "bytes") == [
        ("step", "host_range", 0, 90_000, -1, -1),
        ("step", "device_range", 10_000, 24_000, -1, -1),
        ("gemm", "kernel", 10_001, 10_251, 5, -1),
        ("Memcpy DtoD", "copy", 20_000, 21_500, -1, 4096),
        ("Memset", "memset", 22_000, 23_000, -1, -1),
    ]
    assert trace.run.devices == (
        Device(rank=0, ordinal=0, name="NVIDIA H200", capability="9.0", memory_bytes=150_109_880_320),
    )
    assert sorted(trace.tracks.itertuples(index=False, name=None)) == [
        (0, "", "thread 99", "thread"),
        (0, "python3", "stream 7", "stream"),
        (0, "python3", "stream 8", "stream"),
    ]
    assert said(trace) == {}


def test_order_of_events_makes_no_difference(tmp_path: Path) -> None:
    events = [kernel(i * 10, 5, f"k{i}", tid=i % 2) for i in range(6)]
    one = read(tmp_path, document(*events))
    other = read(tmp_path, document(*reversed(events)))
    columns = ("name", "begin_ns", "end_ns")
    assert rows(one, *columns) == rows(other, *columns)


def test_each_rank_has_its_own_base(tmp_path: Path) -> None:
    # GIVEN two ranks whose times count from different moments; rank 1 began 500 us later
    trace = read_ranks(
        tmp_path,
        {
            "a.json": document(kernel(1000, 10), rank=0, world_size=2, baseTimeNanoseconds=10**18),
            "b.json": document(
                kernel(500, 10, pid=1), rank=1, world_size=2, baseTimeNanoseconds=10**18 + 10**6
            ),
        },
    )
    assert rows(trace, "begin_ns") == [(10**18 + 1_000_000,), (10**18 + 1_500_000,)]
    assert trace.run.clock.aligned


def test_a_base_after_the_events_counts_too(tmp_path: Path) -> None:
    trace = read(tmp_path, json.dumps(document(kernel(1, 1)))[:-1] + ',"baseTimeNanoseconds":"1000000"}')
    assert rows(trace, "begin_ns", "end_ns") == [(1_001_000, 1_002_000)]


def test_clocks_with_and_without_a_base_are_not_aligned(tmp_path: Path) -> None:
    trace = read_ranks(
        tmp_path,
        {
            "a.json": document(kernel(1, 1), rank=0, world_size=2, baseTimeNanoseconds=10**18),
            "b.json": document(kernel(1, 1), rank=1, world_size=2),
        },
    )
    assert not trace.run.clock.aligned
    assert trace.run.lost[0].what == "a common clock"


def test_clocks_a_day_apart_are_not_aligned(tmp_path: Path) -> None:
    later = 25 * 3600 * 10**6
    trace = read_ranks(
        tmp_path,
        {"rank0.json": document(kernel(0, 1), rank=0), "rank1.json": document(kernel(later, 1), rank=1)},
    )
    assert not trace.run.clock.aligned


def test_one_process_has_one_clock(tmp_path: Path) -> None:
    assert read(tmp_path, document(kernel(1, 1))).run.clock == Clock(True, 0, "one process")


def test_hosts_are_told(tmp_path: Path) -> None:
    trace = read_ranks(
        tmp_path,
        {
            "a.json": document(kernel(1, 1), rank=0, host_name="alpha"),
            "b.json": document(kernel(1, 1), rank=1, host_name="beta"),
        },
    )
    assert [device.host for device in trace.run.devices] == ["alpha", "beta"]
    assert "2 hosts" in trace.run.clock.how


@pytest.mark.parametrize("ranks", [[0, 1], "[0, 1]"])
def test_messages_between_ranks(tmp_path: Path, ranks: Any) -> None:
    # GIVEN a send of rank 0 to rank 1 with the arguments that torch attaches to NCCL's kernels
    told: dict[str, Any] = {
        "Collective name": "send", "dtype": "BFloat16", "In msg nelems": 16_777_216,
        "Process Group Name": "15", "Process Group Ranks": ranks, "Group size": 2, "Dst Rank": 1,
    }  # fmt: skip
    info = {"rank": 0, "world_size": 2, "pg_config": PAIR}
    trace = read(tmp_path, document(kernel(1, 1, SEND_RECV, **told), rank=None, distributedInfo=info))
    assert rows(trace, "operation", "group", "peer", "bytes") == [("send", "15", 1, 33_554_432)]
    assert trace.run.groups == (Group("15", "pp", (0, 1)),)


def test_a_range_on_the_stream_tells_what_an_older_kernel_does_not(tmp_path: Path) -> None:
    # GIVEN kernels without arguments, in ranges on their stream that begin a nanosecond later
    trace = read(
        tmp_path,
        document(
            complete("gpu_user_annotation", "nccl:send 0->1", 100.001, 10, tid=9),
            kernel(100, 10.001, SEND_RECV, tid=9),
            complete("gpu_user_annotation", "nccl:all_to_all", 200, 10, tid=9),
            kernel(200, 10, SEND_RECV, tid=9),
            kernel(300, 10, SEND_RECV, tid=9),
            kernel(100, 10, SEND_RECV, tid=8),
            kernel(105, 1, "gemm", tid=9),
        ),
    )
    # THEN each takes the operation of the range round it on its own stream, else it stays unknown
    kernels = trace.slices[trace.slices["category"] == "kernel"].sort_values(["begin_ns", "name", "track"])
    found = list(zip(kernels["begin_ns"] // 1000, kernels["operation"], kernels["peer"], strict=True))
    assert sorted(found) == [
        (100, "send", 1),
        (100, "unknown", -1),
        (105, "", -1),
        (200, "alltoall", -1),
        (300, "unknown", -1),
    ]
    assert said(trace) == {"what communication kernels do": 2}


def test_messages_through_gloo_are_on_the_host(tmp_path: Path) -> None:
    trace = read(
        tmp_path,
        document(kernel(1, 1), complete("user_annotation", "gloo:recv", 2, 3, pid=9, tid=9)),
    )
    assert rows(trace, "category", "operation", "group", "peer") == [
        ("kernel", "", "", -1),
        ("host_range", "recv", "gloo", -1),
    ]


def test_begins_and_ends_are_paired_in_order_of_time(tmp_path: Path) -> None:
    # GIVEN outer [0, 10] round inner [2, 4] written out of order, an end too many, a begin too many
    trace = read(
        tmp_path,
        document(
            half("E", 4), half("B", 0, "outer"), half("B", 2, "inner"), half("E", 10),
            half("E", 11), half("B", 12, "open"), half("B", 1, "elsewhere", tid=2), half("E", 3, tid=2),
            rank=None,
        ),
    )  # fmt: skip
    assert rows(trace, "name", "begin_ns", "end_ns") == [
        ("outer", 0, 10_000),
        ("elsewhere", 1000, 3000),
        ("inner", 2000, 4000),
    ]
    assert said(trace)["ends without a begin"] == 1
    assert said(trace)["unfinished slices"] == 1


def test_slices_without_a_valid_end_are_counted_and_left_out(tmp_path: Path) -> None:
    no_end = {key: value for key, value in kernel(4, 1).items() if key != "dur"}
    trace = read(
        tmp_path,
        document(kernel(1, 1), kernel(2, -5), kernel(3, -1), no_end, kernel(5, None), kernel(None, 1)),
    )
    assert rows(trace, "begin_ns") == [(1000,)]
    assert said(trace) == {
        "unfinished slices": 2, "slices with a negative duration": 2, "events without a time": 1,
    }  # fmt: skip
    assert damaged(trace) == []


def test_kernels_in_1970_are_left_out(tmp_path: Path) -> None:
    now = 1_700_000_000_000_000
    trace = read(
        tmp_path, document(kernel(0, 0), kernel(now, 5), kernel(now + 10, 5), kernel(now + 20, 10**15))
    )
    assert rows(trace, "begin_ns", "end_ns") == [
        (now * 1000, now * 1000 + 5000),
        (now * 1000 + 10_000, now * 1000 + 15_000),
    ]
    assert said(trace) == {"slices at impossible times": 2}


def test_the_same_tid_on_two_pids_is_two_tracks_of_two_devices(tmp_path: Path) -> None:
    trace = read(tmp_path, document(kernel(1, 1, pid=0, tid=7), kernel(2, 1, pid=1, tid=7)))
    assert list(trace.tracks["device"]) == [0, 1]
    assert [device.ordinal for device in trace.run.devices] == [0, 1]


def test_pids_and_tids_may_be_text_or_negative(tmp_path: Path) -> None:
    trace = read(
        tmp_path,
        document(
            kernel(1, 1, pid="0", tid="main"),
            kernel(2, 1, pid=0, tid="main"),
            complete("user_annotation", "x", 3, 1, pid=-1, tid=-2),
        ),
    )
    first, second, third = trace.slices["track"]
    assert first == second != third
    assert [device.ordinal for device in trace.run.devices] == [0]


def test_threads_are_shown_with_the_device_that_works_most(tmp_path: Path) -> None:
    trace = read(
        tmp_path,
        document(
            kernel(1, 1, pid=1),
            kernel(2, 1, pid=2),
            kernel(3, 1, pid=2),
            complete("user_annotation", "x", 3, 1, pid=99, tid=99),
        ),
    )
    (thread,) = trace.tracks[trace.tracks["kind"] == "thread"]["device"]
    assert trace.run.devices[thread].ordinal == 2


def test_a_trace_of_the_host_alone_keeps_some_operators(tmp_path: Path) -> None:
    trace = read(
        tmp_path, document(*(complete("cpu_op", "aten::mm", i, 1, pid=9, tid=9) for i in range(10_005)))
    )
    assert len(trace.slices) == 10_000
    assert set(trace.slices["category"]) == {"host_op"}
    assert trace.run.devices == (Device(rank=0),)
    assert said(trace) == {"operators on the host": 5}


def test_operators_go_when_device_work_comes(tmp_path: Path) -> None:
    trace = read(
        tmp_path, document(complete("cpu_op", "aten::mm", 1, 1), kernel(2, 1), complete("cpu_op", "b", 3, 1))
    )
    assert rows(trace, "name") == [("gemm",)]


def test_cards_of_amd_have_no_cuda_capability_and_may_have_no_name(tmp_path: Path) -> None:
    card = {
        "id": 2,
        "name": "",
        "totalGlobalMem": 206_141_652_992,
        "computeMajor": 9,
        "computeMinor": 4,
        "warpSize": 64,
    }
    trace = read(tmp_path, document(kernel(1, 1, pid=2), deviceProperties=[card]))
    assert trace.run.devices == (Device(rank=0, ordinal=2, memory_bytes=206_141_652_992),)


@pytest.mark.parametrize(
    ("event", "engine"),
    [
        (complete("user_annotation", "execute_context_1(4096)_generation_0(0)", 1, 1), "vllm"),
        (complete("user_annotation", "execute_8192_context_9(sq1sk2)_generation_37(sq3)", 1, 1), "vllm"),
        (kernel(1, 1, "void vllm::rms_norm_kernel<c10::BFloat16>(c10::BFloat16*)"), "vllm"),
        (label("process_name", "VLLM::Worker_PP0"), "vllm"),
        (label("process_name", "sglang::scheduler_PP0"), "sglang"),
        (complete("user_annotation", "step[DECODE bs=5]", 1, 1), "sglang"),
        (kernel(1, 1, "gemm"), None),
    ],
)
def test_the_engine_is_told_by_its_names(tmp_path: Path, event: dict[str, Any], engine: str | None) -> None:
    assert read(tmp_path, document(kernel(0, 1), event)).run.engine == engine


@pytest.mark.parametrize(
    "fields",
    [
        {"distributedInfo": "none"},
        {"distributedInfo": {"rank": "x", "world_size": [2], "pg_config": {"a": 1}}},
        {"distributedInfo": {"rank": -1, "world_size": 1e300, "pg_config": [None, {"ranks": {"a": 1}}, 7]}},
        {"deviceProperties": {"id": 0}},
        {"deviceProperties": [None, {"id": "x"}, {"id": 0, "name": 5, "computeMajor": "9"}]},
        {"baseTimeNanoseconds": {"a": 1}},
        {"baseTimeNanoseconds": 10**40},
        {"host_name": ["a"]},
        {"traceName": "\ud800"},
    ],
)
def test_senseless_fields_count_as_not_said(tmp_path: Path, fields: dict[str, Any]) -> None:
    trace = read(tmp_path, document(kernel(1, 1), rank=None, **fields))
    assert rows(trace, "begin_ns") == [(1000,)]
    assert trace.run.devices[0].rank is None


@pytest.mark.parametrize("arguments", [None, [1], "text", 7, {"correlation": {"a": 1}}, {"correlation": "x"}])
def test_senseless_arguments_count_as_not_said(tmp_path: Path, arguments: Any) -> None:
    trace = read(tmp_path, document({**kernel(1, 1), "args": arguments}, kernel(2, 1, correlation=4)))
    assert rows(trace, "correlation") == [(-1,), (4,)]
