"""A real vLLM that dies in one of its workers, behind a pipe."""

from __future__ import annotations

from pathlib import Path

from tests.engines.vllm.serving import command, installed, prepare, record


@installed
def test_a_wrong_partition_is_explained_by_what_a_worker_said(tmp_path: Path) -> None:
    # GIVEN a model of 8 layers, and a partition of 9 / WHEN vLLM is started with it
    prepare(tmp_path)
    ended = record(tmp_path, [], command(tmp_path), VLLM_PP_LAYER_PARTITION="5,4")
    # THEN it ends by itself, and the last line says why
    assert ended.status == 1
    assert ended.output.rstrip().splitlines()[-1] == (
        "bubblescope: The engine refused the layer partition: it sums to 9 layers, and the model has 8. What "
        "to do: numbers that sum to 8 in VLLM_PP_LAYER_PARTITION or SGLANG_PP_LAYER_PARTITION."
    )
