"""In which format a checkpoint keeps its weights, from its own config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Key and name. Engines treat the same numbers differently by the tool that wrote the checkpoint.
FORMATS = {
    "nvfp4-modelopt": "NVFP4 (ModelOpt)",
    "nvfp4-compressed": "NVFP4 (compressed-tensors)",
    "nvfp4-weights": "NVFP4 weights with 16-bit activations",
    "mxfp4": "MXFP4",
    "fp8": "FP8",
    "fp8-modelopt": "FP8 (ModelOpt)",
    "fp8-compressed": "FP8 (compressed-tensors)",
    "int4-awq": "INT4 (AWQ)",
    "int4-gptq": "INT4 (GPTQ)",
    "int4-compressed": "INT4 (compressed-tensors)",
    "bf16": "BF16",
    "fp16": "FP16",
    "gguf-nvfp4": "NVFP4 (GGUF)",
    "gguf-mxfp4": "MXFP4 (GGUF)",
    "gguf-bf16": "BF16 (GGUF)",
    "gguf": "GGUF blocks",
}

_DIRECT = {"fp8": "fp8", "fbgemm_fp8": "fp8", "mxfp4": "mxfp4", "gpt_oss_mxfp4": "mxfp4"}
_DTYPES = {"bfloat16": "bf16", "float16": "fp16"}


def weight_format(config: Mapping[str, Any], modelopt: Mapping[str, Any] | None = None) -> str | None:
    """The key of the format, or None where it is none of those known.

    config: config.json. modelopt: what hf_quant_config.json has under "quantization", where that
    file exists: older ModelOpt checkpoints say it only there.
    """
    quantization = config.get("quantization_config") or config.get("compression_config")
    if isinstance(quantization, Mapping):
        return _quantized(quantization)
    if modelopt is not None:
        return _modelopt(modelopt)
    text = config.get("text_config")
    inner = text if isinstance(text, Mapping) else {}
    if isinstance(inner.get("quantization_config"), Mapping):
        return _quantized(inner["quantization_config"])
    names = (config.get("dtype"), config.get("torch_dtype"), inner.get("dtype"), inner.get("torch_dtype"))
    return next((_DTYPES[name] for name in names if isinstance(name, str) and name in _DTYPES), None)


def _quantized(quantization: Mapping[str, Any]) -> str | None:
    method = str(quantization.get("quant_method", "")).lower()
    if method.startswith("modelopt"):
        return _modelopt(quantization)
    if method == "compressed-tensors":
        return _compressed(quantization)
    if method in ("awq", "gptq"):
        bits = quantization.get("bits", quantization.get("w_bit"))
        return f"int4-{method}" if bits == 4 else None
    return _DIRECT.get(method)


def _modelopt(quantization: Mapping[str, Any]) -> str | None:
    algorithm = str(quantization.get("quant_algo", "")).upper()
    if algorithm == "W4A16_NVFP4":
        return "nvfp4-weights"
    if algorithm in ("NVFP4", "NVFP4_AWQ"):
        return "nvfp4-modelopt"
    return "fp8-modelopt" if algorithm in ("FP8", "FP8_PB_WO", "FP8_PER_CHANNEL_PER_TOKEN") else None


def _compressed(quantization: Mapping[str, Any]) -> str | None:
    """By the weights of its groups; several groups must agree."""
    groups = quantization.get("config_groups")
    found = {_group(group) for group in groups.values()} if isinstance(groups, Mapping) else set()
    return found.pop() if len(found) == 1 else None


def _group(group: Any) -> str | None:
    weights = group.get("weights") if isinstance(group, Mapping) else None
    if not isinstance(weights, Mapping):
        return None
    kind = (weights.get("num_bits"), weights.get("type"), weights.get("group_size"))
    if kind == (4, "float", 16):
        return "nvfp4-compressed"
    if kind[:2] == (4, "int"):
        return "int4-compressed"
    return "fp8-compressed" if kind[:2] == (8, "float") else None
