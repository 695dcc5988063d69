"""The weight format, as checkpoints declare it."""

from __future__ import annotations

from typing import Any

import pytest

from bubblescope.doctor.formats import FORMATS, weight_format


def compressed(*weights: dict[str, Any]) -> dict[str, Any]:
    groups = {f"group_{n}": {"weights": one} for n, one in enumerate(weights)}
    return {"quantization_config": {"quant_method": "compressed-tensors", "config_groups": groups}}


NVFP4 = {"num_bits": 4, "type": "float", "group_size": 16}
INT4 = {"num_bits": 4, "type": "int", "group_size": 128}


@pytest.mark.parametrize(
    ("config", "weights"),
    [
        ({"torch_dtype": "bfloat16"}, "bf16"),
        ({"dtype": "float16"}, "fp16"),
        ({"text_config": {"dtype": "bfloat16"}}, "bf16"),
        ({"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}}, "nvfp4-modelopt"),
        ({"quantization_config": {"quant_method": "modelopt_fp4", "quant_algo": "NVFP4"}}, "nvfp4-modelopt"),
        ({"quantization_config": {"quant_method": "modelopt", "quant_algo": "W4A16_NVFP4"}}, "nvfp4-weights"),
        ({"quantization_config": {"quant_method": "modelopt", "quant_algo": "FP8"}}, "fp8-modelopt"),
        ({"quantization_config": {"quant_method": "mxfp4"}}, "mxfp4"),
        ({"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}, "fp8"),
        ({"quantization_config": {"quant_method": "awq", "bits": 4}}, "int4-awq"),
        ({"quantization_config": {"quant_method": "awq", "w_bit": 4}}, "int4-awq"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "int4-gptq"),
        (compressed(NVFP4), "nvfp4-compressed"),
        (compressed(NVFP4, NVFP4), "nvfp4-compressed"),
        (compressed(INT4), "int4-compressed"),
        (compressed({"num_bits": 8, "type": "float", "strategy": "channel"}), "fp8-compressed"),
    ],
)
def test_each_way_to_declare_it(config: dict[str, Any], weights: str) -> None:
    assert weight_format(config) == weights
    assert weights in FORMATS


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"torch_dtype": "float8_e4m3fn"},
        {"quantization_config": {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}},
        {"quantization_config": {"quant_method": "gptq", "bits": 8}},
        {"quantization_config": {"quant_method": "somebody_elses"}},
        {"quantization_config": "fp8", "torch_dtype": 3},
        compressed(NVFP4, INT4),
        compressed({"num_bits": 8, "type": "int"}),
        {"quantization_config": {"quant_method": "compressed-tensors", "config_groups": ["?"]}},
    ],
)
def test_what_is_not_known_is_not_guessed(config: dict[str, Any]) -> None:
    assert weight_format(config) is None


def test_older_modelopt_checkpoints_say_it_in_a_file_of_their_own() -> None:
    assert weight_format({"torch_dtype": "bfloat16"}, {"quant_algo": "NVFP4"}) == "nvfp4-modelopt"
