"""What moves between ranks, as arguments, ranges and names of kernels tell it."""

from __future__ import annotations

import pytest

from bubblescope.trace.communication import (
    Transfer,
    global_rank,
    member_ranks,
    of_annotation,
    of_host_range,
    of_kernel_name,
    of_message,
    operation_named,
)
from bubblescope.trace.part import Message


def message(collective: str, **changed: object) -> Message:
    told: dict[str, object] = {
        "group": "15", "ranks": "[0, 1]", "source": None, "destination": None, "elements": 16,
        "dtype": "BFloat16",
    }  # fmt: skip
    return Message(collective=collective, **{**told, **changed})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("send", "send"),
        ("recv", "recv"),
        ("broadcast", "broadcast"),
        ("allreduce", "allreduce"),
        ("all_reduce", "allreduce"),
        ("_allgather_base", "allgather"),
        ("all_gather_into_tensor_coalesced", "allgather"),
        ("_reduce_scatter_base", "reducescatter"),
        ("all_to_allv", "alltoall"),
        ("reduce", "reduce"),
        ("barrier", "barrier"),
        ("coalesced", "unknown"),
    ],
)
def test_operations_have_one_name(written: str, expected: str) -> None:
    assert operation_named(written) == expected


@pytest.mark.parametrize(
    ("kernel", "operation"),
    [
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "unknown"),
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long)", "allreduce"),
        ("ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "broadcast"),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(…)", "reducescatter"),
        ("ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)", "unknown"),
        ("ncclSymkDevKernel_AllGather_LL(…)", "allgather"),
        ("void rcclGenericKernel<2, false>(ncclDevKernelArgsStorage<4096ul>)", "unknown"),
        ("void vllm::cross_device_reduce_1stage<c10::BFloat16, 2>(vllm::RankData*)", "allreduce"),
        ("multimem_all_reduce_kernel", "allreduce"),
        ("void at::native::reduce_kernel<512, 1>(at::native::ReduceOp<float>)", ""),
        ("void at::native::vectorized_gather_kernel<16, long>(char*)", ""),
        ("sendmail", ""),
    ],
)
def test_kernels_that_communicate_are_known_by_name(kernel: str, operation: str) -> None:
    assert of_kernel_name(kernel) == Transfer(operation)


def test_arguments_tell_operation_group_peer_and_bytes() -> None:
    assert of_message(message("send", destination=1), own=0, groups={}) == Transfer("send", "15", 1, 32)
    assert of_message(message("recv", source=0, dtype="Long"), own=1, groups={}) == Transfer(
        "recv", "15", 0, 128
    )
    assert of_message(message("broadcast", dtype="Int"), own=1, groups={}) == Transfer(
        "broadcast", "15", -1, 64
    )
    assert of_message(message("send", destination=1, dtype="Quaternion"), own=0, groups={}).bytes == -1
    assert of_message(message("send", destination=1, elements=None), own=0, groups={}).bytes == -1
    assert of_message(message("allreduce", dtype="Float8_e4m3fn"), own=0, groups={}).bytes == 16


@pytest.mark.parametrize(
    ("peer", "own", "ranks", "expected", "why"),
    [
        (1, 2, (2, 3), 3, "only a place in the group: 1 is no member"),
        (3, 2, (2, 3), 3, "only global: the group has no fourth member"),
        (1, 1, (1, 2, 3), 2, "both possible: place in the group wins"),
        (1, 2, (1, 2, 3), 1, "the place would be this rank itself"),
        (0, None, (4, 5), 4, "own rank unknown"),
        (7, 0, (0, 1), -1, "neither"),
        (5, 0, (), 5, "members unknown: as written"),
        (None, 0, (0, 1), -1, "no peer"),
        (-1, 0, (0, 1), -1, "no peer"),
    ],
)
def test_peers_are_global_ranks(
    peer: int | None, own: int | None, ranks: tuple[int, ...], expected: int, why: str
) -> None:
    assert global_rank(peer, own, ranks) == expected, why


def test_a_shortened_list_of_ranks_is_looked_up() -> None:
    assert member_ranks("[2, 3]") == (2, 3)
    assert member_ranks("[0, 1, ..., 63]") == ()
    long = message("send", ranks="[8, ..., 63]", destination=1)
    assert of_message(long, own=8, groups={"15": tuple(range(8, 64))}).peer == 9


def test_ranges_name_operation_and_peer() -> None:
    assert of_annotation("nccl:send 0->1", 0, {}) == Transfer("send", peer=1)
    assert of_annotation("nccl:recv 1<-0", 1, {}) == Transfer("recv", peer=0)
    assert of_annotation("nccl:all_to_all", 1, {}) == Transfer("alltoall")
    assert of_annotation("nccl:coalesced", 1, {}) == Transfer("unknown")
    assert of_annotation("execute_context_1(4096)", 1, {}) is None


def test_a_range_that_counts_places_in_a_group_is_resolved_where_one_group_fits() -> None:
    groups = {"pp": (1, 3), "tp": (2, 3)}
    # Rank 3 calls itself 1 in both groups; the peer is 1 or 2.
    assert of_annotation("nccl:send 1->0", 3, groups) == Transfer("send", peer=-1)
    assert of_annotation("nccl:send 1->0", 3, {"pp": (1, 3)}) == Transfer("send", peer=1)


def test_gloo_moves_on_the_host() -> None:
    assert of_host_range("gloo:send") == Transfer("send", "gloo")
    assert of_host_range("gloo:recv") == Transfer("recv", "gloo")
    assert of_host_range("nccl:send 0->1") == Transfer()
