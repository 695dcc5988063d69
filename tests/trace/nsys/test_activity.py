"""What ran on the devices, out of an export of Nsight Systems."""

from __future__ import annotations

from pathlib import Path

from bubblescope.trace.frames import UNKNOWN
from bubblescope.trace.read import read_trace
from tests.trace.files import rows, said
from tests.trace.nsys.exports import (
    COPY_HOST_TO_DEVICE,
    GEMM,
    SEND_RECV,
    THREAD_NAME,
    Export,
    process,
    thread,
)


def test_kernels_copies_and_memsets_with_their_streams_on_the_clock_of_the_export(tmp_path: Path) -> None:
    export = Export().kernel(1_000_000_001, 1_000_000_700, stream=7)
    export.add(
        "CUPTI_ACTIVITY_KIND_MEMCPY", start=1_000_000_800, end=1_000_000_900, deviceId=0, streamId=13,
        correlationId=9, globalPid=process(100), bytes=4096, copyKind=COPY_HOST_TO_DEVICE,
    )  # fmt: skip
    export.add(
        "CUPTI_ACTIVITY_KIND_MEMSET", start=1_000_000_950, end=1_000_000_960, deviceId=0, streamId=7,
        correlationId=10, globalPid=process(100), bytes=64,
    )  # fmt: skip
    trace = read_trace(export.write(tmp_path / "x.sqlite"))
    assert rows(trace, "category", "name", "begin_ns", "end_ns", "bytes", "correlation") == [
        ("kernel", GEMM, 1_000_000_001, 1_000_000_700, UNKNOWN, 1),
        ("copy", "Memcpy HtoD", 1_000_000_800, 1_000_000_900, 4096, 9),
        ("memset", "Memset", 1_000_000_950, 1_000_000_960, 64, 10),
    ]
    lanes = trace.tracks["lane"].astype(str).to_numpy()[trace.slices["track"].to_numpy()].tolist()
    assert lanes == ["stream 7", "stream 13", "stream 7"]


def test_a_device_has_the_name_and_number_that_its_machine_gives_it(tmp_path: Path) -> None:
    # GIVEN two processes that each call their own card number 0, and a third that sees both
    export = Export().kernel(0, 5, pid=100).kernel(10, 15, pid=200)
    for ordinal, name in ((0, "NVIDIA H200"), (1, "NVIDIA L4")):
        export.add(
            "TARGET_INFO_GPU",
            id=ordinal,
            name=name,
            totalMemory=1 << 37,
            computeMajor=9,
            computeMinor=ordinal,
        )
    for pid, number, ordinal in ((100, 0, 0), (200, 0, 1), (300, 0, 0), (300, 1, 1)):
        export.add("TARGET_INFO_CUDA_DEVICE", pid=pid, cudaId=number, gpuId=ordinal)
    export.add("TARGET_INFO_SYSTEM_ENV", name="Hostname", value="node7")
    export.add("PROCESSES", globalPid=process(200), pid=200, name="python3")
    trace = read_trace(export.write(tmp_path / "x.sqlite"))
    # THEN the second process's card is the second of the machine
    assert [
        (device.ordinal, device.name, device.capability, device.memory_bytes, device.host)
        for device in trace.run.devices
    ] == [(0, "NVIDIA H200", "9.0", 1 << 37, "node7"), (1, "NVIDIA L4", "9.1", 1 << 37, "node7")]
    assert trace.tracks["process"].astype(str).tolist() == ["process 100", "python3 (200)"]


def test_processes_whose_cards_have_one_number_keep_them_apart(tmp_path: Path) -> None:
    trace = read_trace(Export().kernel(0, 5, pid=100).kernel(1, 6, pid=200).write(tmp_path / "x.sqlite"))
    assert len(trace.run.devices) == 2
    assert said(trace)["rank"] == 2


def test_a_rank_is_known_by_the_name_of_a_thread(tmp_path: Path) -> None:
    export = Export()
    for rank, pid in ((1, 100), (0, 200)):
        export.kernel(0, 5, pid=pid).range(0, None, f"MPI Rank {rank}", pid, kind=THREAD_NAME)
    trace = read_trace(export.write(tmp_path / "x.sqlite"))
    processes = dict(zip(trace.tracks["device"], trace.tracks["process"], strict=True))
    assert [device.rank for device in trace.run.devices] == [0, 1]
    assert processes == {0: "process 200", 1: "process 100"}
    assert "rank" not in said(trace)


def test_a_process_may_bear_its_place_in_the_pipeline_in_its_name(tmp_path: Path) -> None:
    export = Export()
    for pid, name in ((100, "VLLM::Worker_PP1_TP0"), (200, "VLLM::Worker_PP0_TP0"), (300, "ray::worker")):
        export.kernel(0, 5, pid=pid).add("PROCESSES", globalPid=process(pid), pid=pid, name=name)
    trace = read_trace(export.write(tmp_path / "x.sqlite"))
    assert [(device.rank, device.stage) for device in trace.run.devices] == [(0, 0), (1, 1), (None, None)]


def test_what_cannot_be_placed_in_time_is_counted(tmp_path: Path) -> None:
    export = Export().kernel(10, 20).kernel(30, 25)
    export.kernel(1 << 62, (1 << 62) + 5)
    export.rows["CUPTI_ACTIVITY_KIND_KERNEL"][0] |= {"start": 10}
    export.range(5, None, "open")
    trace = read_trace(export.write(tmp_path / "x.sqlite"))
    assert rows(trace, "begin_ns", "end_ns") == [(10, 20)]
    assert said(trace)["slices with a negative duration"] == 1
    assert said(trace)["events without a time"] == 1
    assert said(trace)["unfinished slices"] == 1


def test_names_fall_back_and_one_without_any_is_said_to_be_so(tmp_path: Path) -> None:
    export = Export().kernel(0, 1, "void softmax<8>(int)").kernel(2, 3)
    first, second = export.rows["CUPTI_ACTIVITY_KIND_KERNEL"]
    first["demangledName"], second["demangledName"], second["shortName"] = None, None, None
    trace = read_trace(export.write(tmp_path / "x.sqlite"))
    assert rows(trace, "name") == [("void softmax",), ("kernel without a name",)]


def test_graphs_recorded_as_a_whole_are_compute_and_that_is_said(tmp_path: Path) -> None:
    export = Export().kernel(0, 5).add(
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", start=10, end=40, deviceId=0, streamId=7, correlationId=77,
        globalPid=process(100), graphId=3,
    )  # fmt: skip
    trace = read_trace(export.write(tmp_path / "x.sqlite"))
    assert rows(trace, "category", "name", "begin_ns", "end_ns")[1] == ("kernel", "CUDA graph", 10, 40)
    assert said(trace)["kernels within CUDA graphs"] == 1


def test_communication_is_known_by_the_name_of_its_kernel(tmp_path: Path) -> None:
    export = Export().kernel(0, 5, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(int)").kernel(6, 9, SEND_RECV)
    trace = read_trace(export.write(tmp_path / "x.sqlite"))
    assert rows(trace, "operation") == [("allreduce",), ("unknown",)]


def test_several_exports_of_one_job_are_brought_onto_one_clock_by_when_they_began(tmp_path: Path) -> None:
    # GIVEN two ranks recorded apart, the second begun 1000 ns later
    for rank, began in ((0, 5_000_000), (1, 5_001_000)):
        export = Export().kernel(100, 200).add("TARGET_INFO_SESSION_START_TIME", utcEpochNs=began)
        export.write(tmp_path / f"job_rank{rank}.sqlite")
    trace = read_trace(tmp_path)
    # THEN both times count from the epoch
    assert rows(trace, "begin_ns") == [(5_000_100,), (5_001_100,)]
    assert [device.rank for device in trace.run.devices] == [0, 1]


def test_an_older_schema_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    """Without the columns and tables that came later."""
    path = (
        Export()
        .kernel(5, 9)
        .write(
            tmp_path / "x.sqlite",
            [
                "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN demangledName",
                "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN globalPid",
                'CREATE TABLE NVTX_EVENTS (start, "end", eventType, text, globalTid)',
                f"INSERT INTO NVTX_EVENTS VALUES (1, 8, 59, 'step', {thread(100, 1)})",
            ],
        )
    )
    trace = read_trace(path)
    assert rows(trace, "category", "name") == [("host_range", "step"), ("kernel", "void gemm")]
