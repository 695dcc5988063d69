"""What a later run counts from 0 is numbered after what is kept."""

from __future__ import annotations

import pytest

from bubblescope.errors import NotATraceError
from bubblescope.record.assemble import assemble
from bubblescope.record.later_run import numbered_after
from bubblescope.trace.frames import SLICES, TRACKS, table
from bubblescope.trace.model import Device, Run, Trace
from tests.record.processes import declared, process, span


def of_host(stage: int, *numbers: tuple[int, int]) -> Trace:
    """One forward per step and microbatch."""
    spans = [
        {**span("forward", 10 * at, 10 * at + 5, microbatch=microbatch), "step": step}
        for at, (step, microbatch) in enumerate(numbers)
    ]
    return assemble([process([declared(stage)], spans, clock=f"host {stage}")])


def numbers(trace: Trace) -> list[list[int]]:
    return trace.spans[["step", "microbatch"]].values.tolist()


def kernel(microbatch: int) -> Trace:
    """A recording of one kernel, which a span of that microbatch launched, and of no span."""
    row = {"track": 0, "name": "k", "category": "kernel", "begin_ns": 0, "end_ns": 1, "correlation": -1,
           "operation": "", "group": "", "peer": -1, "bytes": -1, "microbatch": microbatch,
           "span": "forward"}  # fmt: skip
    return Trace(
        Run((Device(),)),
        tracks=table(TRACKS, {"device": [0], "process": ["p"], "lane": ["7"], "kind": ["stream"]}),
        slices=table(SLICES, {name: [value] for name, value in row.items()}),
    )


def test_all_hosts_of_the_later_run_keep_their_numbers_in_common() -> None:
    # GIVEN a run of which steps up to 4 and microbatches up to 2 are kept
    kept = of_host(0, (3, 0), (4, 2), (4, 1))
    first, second = numbered_after(kept, [of_host(0, (0, 0), (1, 1)), of_host(1, (1, 1))])
    # THEN a later run of two hosts goes on from step 5 and microbatch 3
    assert numbers(first) == [[5, 3], [6, 4]]
    assert numbers(second) == [[6, 4]]


def test_what_has_no_number_gets_none() -> None:
    later = of_host(0, (-1, -1), (-1, 0))
    assert numbers(numbered_after(of_host(0, (-1, 6)), [later])[0]) == [[-1, -1], [-1, 7]]


def test_kernels_go_with_their_microbatch() -> None:
    # GIVEN microbatches that only kernels name
    later = numbered_after(kernel(5), [kernel(0), kernel(-1)])
    assert [trace.slices["microbatch"].tolist() for trace in later] == [[6], [-1]]


def test_after_a_recording_without_numbers_they_stay_as_they_are() -> None:
    assert numbers(numbered_after(Trace(Run()), [of_host(0, (7, 0))])[0]) == [[7, 0]]


def test_numbers_that_leave_no_room_for_others_are_refused_in_one_line() -> None:
    largest = 2**63 - 1
    with pytest.raises(NotATraceError, match=r"^the microbatch numbers are too large .* another file$"):
        numbered_after(of_host(0, (0, largest)), [of_host(0, (0, 0))])
    # AND the largest that there is room for is taken
    assert numbers(numbered_after(of_host(0, (0, largest - 1)), [of_host(0, (0, 0))])[0]) == [[1, largest]]
