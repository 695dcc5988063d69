"""Names of profiler ranges as the engines write them."""

from __future__ import annotations

import pytest

from bubblescope.analyzers.annotations import Batch, batch


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("execute_context_1(4096)_generation_0(0)", Batch("prefill", 4096, 1)),
        ("execute_context_0(0)_generation_3(3)", Batch("decode", 3, 3)),
        ("execute_context_2(700)_generation_5(5)", Batch("mixed", 705, 7)),
        (
            "execute_8192_context_9(sq8155sk8430sqsq7475785sqsk7671310)_generation_37(sq37sk34489sqsq37sqsk34489)",
            Batch("mixed", 8192, 46),
        ),
        ("step[EXTEND bs=1 toks=4096]", Batch("prefill", 4096, 1)),
        ("step[DECODE bs=5]", Batch("decode", 5, 5)),
        ("step[MIXED bs=3 toks=77]", Batch("mixed", 77, 3)),
    ],
)
def test_a_batch_is_read_from_its_range(name: str, expected: Batch) -> None:
    assert batch(name) == expected


@pytest.mark.parametrize(
    "name",
    [
        "execute_context_0(0)_generation_0(0)",
        "step[IDLE bs=0]",
        "nccl:send 0->1",
        "run_batch",
        "",
        "step[EXTEND",
    ],
)
def test_other_ranges_name_no_batch(name: str) -> None:
    assert batch(name) is None
