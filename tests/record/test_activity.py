"""What devices did is joined to what launched it, by the numbers of CUDA's calls."""

from __future__ import annotations

from typing import Any

import orjson
import pandas as pd
import pytest

from bubblescope.collectors._bubblescope_inject import layout
from bubblescope.record.assemble import assemble
from bubblescope.record.spool import Process
from bubblescope.trace.model import Device, Lost
from tests.record.processes import declared, process, span

SEND_RECV = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
BROADCAST = "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
NOT_LOADED = "no process loaded the library that records them: none used CUDA, or another profiler did"
NAMES = ("gemm", "attention", SEND_RECV, BROADCAST, ALL_REDUCE)


def kernel(
    name: str, begin: int, end: int, correlation: int, stream: int = 7, graph: int = 0, device: int = 0
) -> dict[str, int]:
    return {
        "name": NAMES.index(name), "begin_ns": begin, "end_ns": end, "correlation": correlation,
        "stream": stream, "graph": graph, "device": device,
    }  # fmt: skip


def launches(
    kind: str, microbatch: int, after: int, before: int, stage: int = 0, peer: int = -1
) -> dict[str, int]:
    return {
        "kind": layout.KINDS.index(kind), "microbatch": microbatch, "after": after, "before": before,
        "stage": stage, "peer": peer,
    }  # fmt: skip


def injection(*activities: dict[str, int], pid: int = 1, **facts: Any) -> Process:
    """The file of the injection: of the same process as the collector's, and yet another."""
    named = {
        f"kernels:{name}".replace("_", ":"): (5, orjson.dumps(value).decode())
        for name, value in facts.items()
    }
    return process(activities=activities, texts=NAMES, pid=pid, facts=named)


def joined(slices: pd.DataFrame) -> list[list[object]]:
    """Begin, microbatch and kind of the span of every slice."""
    return slices[["begin_ns", "microbatch", "span"]].to_numpy().tolist()


def test_a_kernel_belongs_to_the_span_that_launched_it_whenever_it_runs() -> None:
    # GIVEN two forwards whose kernels run long after both were launched, and one that nobody launched
    collector = process(
        stages=[declared(0, rank=0)],
        spans=[span("forward", 1, 2, microbatch=0), span("forward", 3, 4, microbatch=1)],
        launches=[launches("forward", 0, after=10, before=13), launches("forward", 1, after=13, before=16)],
    )
    device = injection(
        kernel("gemm", 100, 110, 11), kernel("gemm", 120, 130, 12), kernel("gemm", 140, 150, 14),
        kernel("gemm", 160, 170, 20),
    )  # fmt: skip
    trace = assemble([collector, device])
    assert joined(trace.slices) == [
        [100, 0, "forward"],
        [120, 0, "forward"],
        [140, 1, "forward"],
        [160, -1, ""],
    ]
    assert trace.run.devices == (Device(rank=0, stage=0, host="host"),)


def test_of_spans_within_each_other_the_inner_one_launched_it() -> None:
    collector = process(
        stages=[declared(0, rank=0)],
        launches=[launches("sample", 3, after=10, before=20), launches("head", 3, after=12, before=15)],
    )
    device = injection(kernel("gemm", 1, 2, 11), kernel("gemm", 3, 4, 13), kernel("gemm", 5, 6, 17))
    assert joined(assemble([collector, device]).slices) == [
        [1, 3, "sample"],
        [3, 3, "head"],
        [5, 3, "sample"],
    ]


def test_what_another_process_launched_is_not_confused_with_it() -> None:
    # GIVEN two processes that both number their calls from the same number on
    collectors = [
        process(
            stages=[declared(rank, rank=rank)], launches=[launches("forward", rank + 5, 10, 12)], pid=rank + 1
        )
        for rank in (0, 1)
    ]
    devices = [injection(kernel("gemm", 100 + rank, 200, 11), pid=rank + 1) for rank in (0, 1)]
    trace = assemble([*collectors, *devices])
    assert joined(trace.slices) == [[100, 5, "forward"], [101, 6, "forward"]]
    assert trace.tracks["device"].tolist() == [0, 1]


def test_spans_run_from_their_first_kernel_to_their_last() -> None:
    # GIVEN a forward that the host began at 1, a schedule that launched nothing, and a receive that was asked
    # for at 8, with a copy in it
    collector = process(
        stages=[declared(1, rank=1)],
        spans=[
            span("forward", 1, 5, microbatch=0), span("schedule", 6, 7, microbatch=0),
            span("recv", 8, 9, microbatch=0, peer=0),
        ],
        launches=[launches("forward", 0, 10, 14), launches("recv", 0, 20, 24, peer=0)],
    )  # fmt: skip
    device = injection(
        kernel("gemm", 100, 110, 11), kernel("attention", 105, 130, 12), kernel(SEND_RECV, 40, 60, 21),
        kernel("gemm", 70, 80, 22),
    )  # fmt: skip
    spans = assemble([collector, device]).spans
    assert spans[["kind", "begin_ns", "end_ns", "clock"]].to_numpy().tolist() == [
        ["forward", 100, 130, "device"],
        ["schedule", 6, 7, "host"],
        ["recv", 8, 60, "device"],
    ]


def test_times_far_from_0_are_not_rounded() -> None:
    # GIVEN times that no float holds, and a span that launched nothing beside those that did
    far = (1 << 60) + 1
    spans = [
        span("forward", far, far + 5, microbatch=0),
        span("recv", far + 2, far + 9, microbatch=0, peer=0),
    ]
    collector = process(
        stages=[declared(1, rank=1)],
        spans=[*spans, span("schedule", far + 1, far + 2)],
        launches=[launches("forward", 0, 10, 14), launches("recv", 0, 20, 24, peer=0)],
    )
    device = injection(kernel("gemm", far + 100, far + 131, 11), kernel(SEND_RECV, far + 40, far + 61, 21))
    trace = assemble([collector, device])
    times = (
        trace.spans.sort_values("kind")[["begin_ns", "end_ns"]] - trace.slices["begin_ns"].min()
    ).to_numpy()
    assert times.tolist() == [[60, 91], [-38, 21], [-39, -38]]


def test_nccl_kernels_get_direction_and_peer_from_the_span() -> None:
    # GIVEN stages 0 and 1 with ranks 4 and 5, and a kernel for sends that no span launched
    sender = process(stages=[declared(0, rank=4)], launches=[launches("send", 0, 10, 12, peer=1)], pid=1)
    receiver = process(stages=[declared(1, rank=5)], launches=[launches("recv", 0, 10, 12, peer=0)], pid=2)
    devices = [
        injection(
            kernel(SEND_RECV, 1, 9, 11), kernel(SEND_RECV, 20, 30, 15), kernel(BROADCAST, 40, 50, 16), pid=1
        ),
        injection(kernel(SEND_RECV, 2, 9, 11), kernel("gemm", 10, 12, 13), pid=2),
    ]
    slices = assemble([sender, receiver, *devices]).slices
    assert slices[["begin_ns", "operation", "peer"]].to_numpy().tolist() == [
        [1, "send", 5], [2, "recv", 4], [10, "", -1], [20, "unknown", -1], [40, "broadcast", -1],
    ]  # fmt: skip


@pytest.mark.parametrize(("received", "size"), [(800, 400), (600, -1)])
def test_both_sides_of_a_message_share_the_bytes_of_its_spans(received: int, size: int) -> None:
    # GIVEN a message in two parts, of which the receiver tells as many bytes as the sender, or fewer
    collectors = [
        process(
            stages=[declared(stage, rank=stage)],
            spans=[{**span(kind, 1, 2, peer=1 - stage), "bytes": told}],
            launches=[launches(kind, 0, 10, 14, peer=1 - stage)],
            pid=stage + 1,
        )
        for stage, kind, told in ((0, "send", 800), (1, "recv", received))
    ]
    devices = [
        injection(kernel(SEND_RECV, 1 + pid, 9, 11), kernel(SEND_RECV, 10 + pid, 19, 12), pid=pid)
        for pid in (1, 2)
    ]
    slices = assemble([*collectors, *devices]).slices
    assert slices["operation"].tolist() == ["send", "recv", "send", "recv"]
    assert slices["bytes"].tolist() == [size] * 4


def test_collectives_within_a_stage_of_two_devices_are_a_group_of_their_own() -> None:
    collectors = [process(stages=[declared(rank // 2, rank=rank)], pid=rank + 1) for rank in range(4)]
    devices = [
        injection(kernel(ALL_REDUCE, rank, 90, 1), kernel(BROADCAST, 95, 99, 2), pid=rank + 1)
        for rank in range(4)
    ]
    slices = assemble([*collectors, *devices]).slices
    assert slices["group"].tolist() == ["stage 0", "stage 0", "stage 1", "stage 1", "", "", "", ""]


def test_a_launch_of_a_graph_is_a_range_round_its_nodes() -> None:
    collector = process(stages=[declared(0, rank=0)], launches=[launches("forward", 7, 10, 14)])
    device = injection(
        kernel("gemm", 100, 110, 11, graph=44), kernel("gemm", 120, 130, 11, graph=44),
        kernel("gemm", 125, 150, 11, graph=44, stream=8),
    )  # fmt: skip
    trace = assemble([collector, device])
    ranges = trace.slices[trace.slices["category"] == "device_range"]
    assert ranges[["name", "begin_ns", "end_ns", "microbatch"]].to_numpy().tolist() == [
        ["graph 44", 100, 130, 7],
        ["graph 44", 125, 150, 7],
    ]


def test_without_a_collector_devices_are_those_that_worked() -> None:
    # GIVEN two ranks of a program that knows nothing of us, and a third process on rank 1's device
    facts = [
        {"name": "NVIDIA H200", "capability": "9.0", "memory_bytes": 140, "uuid": uuid, "rank": rank}
        for uuid, rank in (("aa", 0), ("bb", 1), ("bb", -1))
    ]
    processes = [
        injection(kernel("gemm", 10 * pid, 100, 1, device=device), pid=pid, **{f"device_{device}": fact})
        for pid, device, fact in ((1, 0, facts[0]), (2, 1, facts[1]), (3, 0, facts[2]))
    ]
    trace = assemble(processes[::-1])  # whoever began first
    assert trace.run.devices == (
        Device(0, None, 0, "NVIDIA H200", "host", "9.0", 140),
        Device(1, None, 1, "NVIDIA H200", "host", "9.0", 140),
    )
    assert trace.tracks[["device", "process"]].to_numpy().tolist() == [
        [0, "process 1"], [1, "process 2"], [1, "process 3"],
    ]  # fmt: skip


@pytest.mark.parametrize("uuid", [None, "", 5, [], ["aa"], {"a": 1}])
def test_a_number_of_a_device_that_is_no_text_is_none(uuid: object) -> None:
    work = [injection(kernel("gemm", 10, 20, 1), pid=pid, device_0={"uuid": uuid}) for pid in (1, 2)]
    assert len(assemble(work).run.devices) == 2


def test_facts_of_devices_that_are_no_json_are_not_told() -> None:
    broken = {f"kernels:{name}": (5, "{") for name in ("asked", "process", "device:0")}
    collector = process(stages=[declared(0, rank=0)], spans=[span("forward", 1, 2)], facts=broken)
    assert list(assemble([collector]).run.lost) == [Lost("kernels", NOT_LOADED)]


@pytest.mark.parametrize(
    ("facts", "lost"),
    [
        ({"asked": "there is no compiler"}, [Lost("kernels", "there is no compiler")]),
        ({"asked": ""}, [Lost("kernels", NOT_LOADED)]),
        ({"asked": "", "process": {"dropped": 3, "why_not": ""}},
         [Lost("kernels", "CUPTI had no room for them", 3)]),
        ({"process": {"dropped": 0, "why_not": "another profiler holds CUPTI"}},
         [Lost("kernels of processes", "another profiler holds CUPTI", 1)]),
        ({"asked": "", "process": {"dropped": 0, "why_not": ""}}, []),
        ({"process": "nonsense"}, []),
        ({}, []),
    ],
)  # fmt: skip
def test_what_of_the_devices_is_missing_is_said(facts: dict[str, Any], lost: list[Lost]) -> None:
    trace = assemble(
        [process(stages=[declared(0, rank=0)], spans=[span("forward", 1, 2)]), injection(**facts)]
    )
    assert list(trace.run.lost) == lost
    assert set(trace.run.facts) == {"clock"}
