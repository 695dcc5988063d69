"""vLLM. Read: the sources of 0.9.2, 0.10.0, 0.10.1.1, 0.10.2, 0.11.2, 0.12.0 to 0.20.2 and 0.23.0 to 0.33.0.

Paths are below vllm/; `quantization/` stands for model_executor/layers/quantization/.
"""

from __future__ import annotations

from bubblescope.doctor.rules.rule import Rule

_V = "vllm"
_NVFP4 = ("nvfp4-modelopt", "nvfp4-compressed")

_MARLIN = "keeps the weights in FP4 and computes in 16 bits (Marlin), without FP4 units"
_NO_FP8 = "keeps the weights in FP8 and computes in 16 bits (Marlin), without FP8 units"
_NATIVE_FP4 = "computes in FP4 on the card's FP4 units"
_OTHER = "another checkpoint (INT4: GPTQ or AWQ), or llama.cpp with GGUF"
_ORACLE = "vllm 0.33.0 model_executor/layers/fused_moe/oracle"

_NVFP4_RULES = (
    Rule(
        _V, _NVFP4, ((7, 5), (10, 0)), "fails",
        "is told to use kernels that need FP4 units, which come with compute capability 10.0",
        f"{_ORACLE}/nvfp4.py select_nvfp4_moe_backend; kernels/linear/__init__.py init_nvfp4_linear_kernel",
        since="0.16", kernels="native",
        way_out="leave the backend out of the command, or set it to marlin",
    ),
    Rule(
        _V, _NVFP4, ((0, 0), (7, 5)), "fails",
        "takes NVFP4 from compute capability 7.5 on (Marlin)",
        "vllm 0.16.0, 0.33.0 quantization/modelopt.py ModelOptNvFp4Config.get_min_capability",
        since="0.16", way_out=_OTHER,
    ),
    Rule(
        _V, _NVFP4, ((7, 5), (10, 0)), "emulated", _MARLIN,
        "vllm 0.16.0 quantization/utils/nvfp4_utils.py select_nvfp4_linear_backend; "
        "0.33.0 model_executor/kernels/linear/nvfp4/marlin.py",
        since="0.16",
    ),
    Rule(
        _V, _NVFP4, ((10, 0), (13, 0)), "emulated",
        "is told to use kernels that compute in 16 bits, and leaves the FP4 units idle",
        f"{_ORACLE}/nvfp4.py map_nvfp4_backend",
        since="0.16", kernels="weight-only",
        way_out="leave the backend out of the command, unless older cards share this pipeline",
    ),
    Rule(
        _V, _NVFP4, ((12, 0), (13, 0)), "fails",
        "is told to use a FlashInfer backend whose experts it refuses outside 9.0 and 10.x",
        "vllm 0.15.0 model_executor/layers/fused_moe/flashinfer_cutlass_moe.py; vllm#33416",
        since="0.15", before="0.16", kernels="native", experts=True,
        way_out="vLLM 0.16 or newer",
    ),
    Rule(
        _V, _NVFP4, ((10, 0), (13, 0)), "native", _NATIVE_FP4,
        "vllm 0.16.0, 0.33.0 model_executor/layers/fused_moe/experts/cutlass_moe.py: families 100, 110, 120",
        since="0.12",
    ),
    # Before 0.12 the sources name capabilities one by one, and 12.0 is not "10.0 and up".
    Rule(
        _V, _NVFP4, ((12, 0), (13, 0)), "fails",
        "chooses FP4 kernels from 10.0 on, and was built with them for 10.0 only",
        "vllm 0.9.2, 0.10.0 CMakeLists.txt FP4_ARCHS; csrc/quantization/fp4/nvfp4_scaled_mm_entry.cu",
        since="0.9.2", before="0.10.1", way_out="vLLM 0.12 or newer",
    ),
    Rule(
        _V, _NVFP4, ((12, 0), (13, 0)), "fails",
        "was built with FP4 kernels for experts for 10.0 only",
        "vllm 0.10.2, 0.11.2 CMakeLists.txt nvfp4_blockwise_moe_kernel.cu",
        since="0.10.1", before="0.12", experts=True, way_out="vLLM 0.12 or newer",
    ),
    Rule(
        _V, _NVFP4, ((11, 0), (12, 0)), "unknown",
        "chooses FP4 kernels from 10.0 on; for which of them it was built differs by its CUDA",
        "vllm 0.9.2 to 0.11.2 CMakeLists.txt FP4_ARCHS",
        since="0.9.2", before="0.12", way_out="vLLM 0.12 or newer",
    ),
    Rule(
        _V, _NVFP4, ((10, 0), (13, 0)), "native", _NATIVE_FP4,
        "vllm 0.10.2, 0.11.2 CMakeLists.txt FP4_ARCHS: 10.0a, 12.0a",
        since="0.9.2", before="0.12",
    ),
    Rule(
        _V, _NVFP4, ((0, 0), (7, 5)), "fails",
        "takes NVFP4 from compute capability 7.5 or 8.0 on (Marlin)",
        "vllm 0.9.2, 0.13.0 (80), 0.14.0 (75) quantization/modelopt.py ModelOptNvFp4Config",
        since="0.9.2", before="0.16", way_out=_OTHER,
    ),
    Rule(
        _V, ("nvfp4-compressed",), ((8, 0), (10, 0)), "emulated", _MARLIN,
        "vllm 0.9.2, 0.12.0, 0.15.0 quantization/compressed_tensors/compressed_tensors.py "
        "CompressedTensorsW4A16Fp4",
        since="0.9.2", before="0.16",
    ),
    Rule(
        _V, ("nvfp4-modelopt",), ((8, 0), (10, 0)), "emulated", _MARLIN,
        "vllm 0.9.2, 0.10.0 quantization/modelopt.py ModelOptNvFp4LinearMethod",
        since="0.9.2", before="0.10.1",
    ),
    Rule(
        _V, ("nvfp4-modelopt",), ((8, 0), (10, 0)), "unknown",
        "emulates where FlashInfer cannot compile (no nvcc); else it takes FlashInfer's FP4 kernels "
        "without asking the card, and dies",
        "vllm 0.10.1.1 to 0.15.0 quantization/modelopt.py ModelOptNvFp4LinearMethod; utils/flashinfer.py",
        since="0.10.1", before="0.16", way_out="vLLM 0.16 or newer asks the card first, and emulates",
    ),
    Rule(
        _V, ("nvfp4-weights",), ((7, 5), (13, 0)), "emulated",
        "computes in 16 bits, as this checkpoint asks for; no card uses its FP4 units",
        "vllm 0.26.0, 0.33.0 quantization/modelopt.py; model_executor/kernels/linear/__init__.py; vllm#47749",
        since="0.26", way_out="a checkpoint with FP4 activations (W4A4), if all cards have FP4 units",
    ),
)  # fmt: skip

_MXFP4_RULES = (
    Rule(
        _V, ("mxfp4",), ((0, 0), (8, 0)), "fails",
        "takes MXFP4 from compute capability 8.0 on",
        "vllm 0.10.1.1, 0.33.0 quantization/mxfp4.py Mxfp4Config.get_min_capability",
        since="0.10.1", way_out="llama.cpp with an MXFP4 GGUF",
    ),
    Rule(
        _V, ("mxfp4",), ((8, 0), (10, 0)), "emulated",
        "keeps the weights in FP4 and computes in 16 bits (Marlin or Triton), without FP4 units",
        "vllm 0.10.2 to 0.16.0 quantization/mxfp4.py get_mxfp4_backend; 0.33.0 fused_moe/oracle/mxfp4.py",
        since="0.10.1",
    ),
    Rule(
        _V, ("mxfp4",), ((10, 0), (13, 0)), "emulated",
        "is told to use kernels that compute in 16 bits, and leaves the FP4 units idle",
        f"{_ORACLE}/mxfp4.py map_mxfp4_backend",
        since="0.20", kernels="weight-only",
        way_out="leave the backend out of the command, unless older cards share this pipeline",
    ),
    Rule(
        _V, ("mxfp4",), ((10, 0), (11, 0)), "native",
        "computes on the card's FP4 units (FlashInfer; without it, it emulates)",
        "vllm 0.10.2 to 0.16.0 quantization/mxfp4.py get_mxfp4_backend; 0.33.0 fused_moe/oracle/mxfp4.py",
        since="0.10.1",
    ),
    Rule(
        _V, ("mxfp4",), ((12, 0), (13, 0)), "emulated",
        "uses the FP4 units of 10.x only; here it computes in 16 bits (Marlin)",
        "vllm 0.10.2 to 0.16.0 quantization/mxfp4.py; 0.20.2 fused_moe/oracle/mxfp4.py",
        since="0.10.1", before="0.21", way_out="vLLM 0.23 or newer with FlashInfer",
    ),
    Rule(
        _V, ("mxfp4",), ((12, 0), (13, 0)), "native",
        "computes on the card's FP4 units (FlashInfer; without it, it emulates)",
        "vllm 0.23.0, 0.33.0 fused_moe/oracle/mxfp4.py; experts/flashinfer_cutlass_moe.py",
        since="0.23",
    ),
)  # fmt: skip

_FP8_RULES = (
    Rule(
        _V, ("fp8-modelopt",), ((0, 0), (8, 9)), "fails",
        "takes ModelOpt FP8 from compute capability 8.9 on",
        "vllm 0.9.2 to 0.26.0 quantization/modelopt.py ModelOptFp8Config.get_min_capability",
        since="0.9.2", before="0.27", way_out="vLLM 0.27.1 or newer emulates from 8.0 on",
    ),
    Rule(
        _V, ("fp8-modelopt",), ((8, 0), (8, 9)), "emulated", _NO_FP8,
        "vllm 0.27.1, 0.33.0 quantization/modelopt.py ModelOptFp8Config; kernels/linear/scaled_mm/marlin.py",
        since="0.27.1",
    ),
    Rule(
        _V, ("fp8-modelopt",), ((0, 0), (8, 0)), "fails",
        "takes ModelOpt FP8 from compute capability 8.0 on",
        "vllm 0.27.1, 0.33.0 quantization/modelopt.py ModelOptFp8Config.get_min_capability",
        since="0.27.1", way_out=_OTHER,
    ),
    Rule(
        _V, ("fp8", "fp8-compressed"), ((0, 0), (7, 5)), "fails",
        "takes FP8 from compute capability 7.5 (0.14 and older: 8.0) on",
        "vllm 0.9.2 to 0.13.0 (80), 0.14.0 to 0.33.0 (75) quantization/fp8.py Fp8Config.get_min_capability",
        since="0.9.2", way_out=_OTHER,
    ),
    Rule(
        _V, ("fp8",), ((7, 5), (8, 0)), "fails",
        "takes FP8 from compute capability 8.0 on",
        "vllm 0.9.2, 0.13.0 quantization/fp8.py Fp8Config.get_min_capability",
        since="0.9.2", before="0.14", way_out="vLLM 0.14 or newer emulates from 7.5 on",
    ),
    Rule(
        _V, ("fp8-compressed",), ((7, 5), (8, 0)), "fails",
        "takes FP8 from compute capability 8.0 on",
        "vllm 0.9.2, 0.15.0 quantization/compressed_tensors/schemes/compressed_tensors_w8a16_fp8.py",
        since="0.9.2", before="0.16", way_out="vLLM 0.16 or newer emulates from 7.5 on",
    ),
    Rule(
        _V, ("fp8", "fp8-compressed"), ((7, 5), (8, 9)), "emulated", _NO_FP8,
        "vllm 0.9.2, 0.16.0 quantization/fp8.py use_marlin; 0.33.0 kernels/linear/scaled_mm/marlin.py",
        since="0.9.2",
    ),
    Rule(
        _V, ("fp8", "fp8-compressed", "fp8-modelopt"), ((8, 9), (13, 0)), "native",
        "computes in FP8 on the card's FP8 units",
        "vllm 0.9.2, 0.33.0 quantization/fp8.py; compressed_tensors_w8a8_fp8.py get_min_capability 89",
        since="0.9.2",
    ),
)  # fmt: skip

_OTHER_RULES = (
    Rule(
        _V, ("int4-awq", "int4-gptq", "int4-compressed", "bf16", "fp16"), ((0, 0), (7, 5)), "fails",
        "is built without kernels below compute capability 7.5",
        "vllm 0.20.2, 0.33.0 CMakeLists.txt CUDA_SUPPORTED_ARCHS",
        since="0.20", way_out="llama.cpp with GGUF",
    ),
    Rule(
        _V, ("int4-awq",), ((0, 0), (7, 5)), "fails",
        "takes AWQ from compute capability 7.5 on",
        "vllm 0.9.2, 0.16.0 quantization/awq.py AWQConfig.get_min_capability",
        since="0.9.2", before="0.20", way_out="llama.cpp with GGUF",
    ),
    Rule(
        _V, ("int4-compressed",), ((7, 5), (8, 0)), "fails",
        "takes INT4 of compressed-tensors from compute capability 8.0 on",
        "vllm 0.9.2, 0.11.2 quantization/compressed_tensors/schemes/compressed_tensors_wNa16.py",
        since="0.9.2", before="0.12", way_out="vLLM 0.12 or newer takes it from 7.5 on",
    ),
    Rule(
        _V, ("int4-awq", "int4-gptq", "int4-compressed"), ((7, 5), (13, 0)), "native",
        "keeps the weights in INT4 and computes in 16 bits, as on every card",
        "vllm 0.9.2, 0.16.0 quantization/awq_marlin.py, gptq_marlin.py; 0.33.0 auto_awq.py, auto_gptq.py",
        since="0.9.2",
    ),
    Rule(
        _V, ("bf16",), ((7, 5), (8, 0)), "native",
        "has no BF16 units here and computes in FP16 instead, unless --dtype bfloat16 forbids it",
        "vllm 0.9.2, 0.33.0 platforms/cuda.py supported_dtypes, check_if_supports_dtype",
        since="0.9.2",
    ),
    Rule(
        _V, ("bf16",), ((8, 0), (13, 0)), "native",
        "computes in BF16 on the card's 16-bit units",
        "vllm 0.9.2, 0.33.0 platforms/cuda.py supported_dtypes",
        since="0.9.2",
    ),
    Rule(
        _V, ("fp16",), ((7, 5), (13, 0)), "native",
        "computes in FP16 on the card's 16-bit units",
        "vllm 0.9.2, 0.33.0 platforms/cuda.py supported_dtypes",
        since="0.9.2",
    ),
)  # fmt: skip

VLLM: tuple[Rule, ...] = (*_NVFP4_RULES, *_MXFP4_RULES, *_FP8_RULES, *_OTHER_RULES)
