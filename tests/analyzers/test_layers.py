"""Layers per stage, and where they come from."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bubblescope.analyzers.analysis import analyze
from bubblescope.analyzers.results import Options
from bubblescope.trace.model import Trace
from tests.analyzers.handmade import Slice, recv, send, trace_of

ATTENTION = "void flash::FlashAttnFwdSm90<cute::tuple<int> >(Params)"


def recording(per_stage: tuple[int, int], name: str = ATTENTION) -> Trace:
    """Three chunks; each layer a gemm of 6 ns, attention of 10 ns and a cache write of 2 ns."""
    slices: list[Slice] = []
    for number in range(3):
        at = number * 10_000
        for stage, start in ((0, at), (1, at + 5000)):
            for layer in range(per_stage[stage]):
                begin = start + layer * 18
                slices += [
                    Slice(stage, begin, begin + 6),
                    Slice(stage, begin + 6, begin + 16, name),
                    Slice(stage, begin + 16, begin + 18, "void reshape_and_cache_flash_kernel<bf16>(long)"),
                ]
        slices += [send(0, 1, at + 4000, at + 4010), recv(1, 0, at + 4000, at + 4010)]
    return trace_of(slices)


def found(trace: Trace, options: Options | None = None) -> tuple[list[int | None], str | None]:
    analysis = analyze(trace, options)
    return [stage.layers for stage in analysis.stages], analysis.layers_from


def test_attention_kernels_per_microbatch_are_the_layers() -> None:
    assert found(recording((27, 9))) == ([27, 9], "attention")


def test_the_recording_knows_better_and_the_user_best() -> None:
    trace = recording((27, 9))
    told = replace(trace, run=replace(trace.run, partition=(20, 16)))
    assert found(told) == ([20, 16], "recording")
    assert found(told, Options(partition=(30, 6))) == ([30, 6], "flag")


def test_without_attention_kernels_the_layers_are_unknown_and_that_is_said() -> None:
    trace = recording((3, 2), name="gelu")
    assert found(trace) == ([None, None], None)
    assert any(lost.what == "layers per stage" for lost in analyze(trace).lost)


def test_a_partition_for_another_number_of_stages_is_refused() -> None:
    trace = recording((3, 2))
    analysis = analyze(trace, Options(partition=(1, 2, 3)))
    assert [stage.layers for stage in analysis.stages] == [None, None]
    assert any("names 3 stages, the recording shows 2" in lost.why for lost in analysis.lost)


@pytest.mark.parametrize("partition", [(5, 0), (5, -1), (5, 1 << 31), (1 << 70, 1 << 70)])
def test_a_stage_without_layers_or_with_too_many_is_not_believed(partition: tuple[int, ...]) -> None:
    trace = recording((3, 2))
    told = replace(trace, run=replace(trace.run, partition=partition))
    assert found(told) == ([None, None], None)
