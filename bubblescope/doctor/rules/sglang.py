"""SGLang. Read: the sources of 0.5.1, 0.5.3 to 0.5.9, 0.5.12, 0.5.13 and 0.5.17 to 0.5.23.

Paths are below sglang/srt/; `quantization/` stands for layers/quantization/.
"""

from __future__ import annotations

from bubblescope.doctor.rules.rule import Rule

_S = "sglang"

_MARLIN = "keeps the weights in FP4 and computes in 16 bits (Marlin), without FP4 units"
_NATIVE_FP4 = "computes in FP4 on the card's FP4 units"
_EVERY = (
    "nvfp4-modelopt", "nvfp4-compressed", "nvfp4-weights", "mxfp4", "fp8", "fp8-modelopt", "fp8-compressed",
    "int4-awq", "int4-gptq", "int4-compressed", "bf16", "fp16",
)  # fmt: skip

_NVFP4_RULES = (
    Rule(
        _S, ("nvfp4-modelopt",), ((0, 0), (10, 0)), "fails",
        "takes ModelOpt NVFP4 from compute capability 10.0 on only",
        "sglang 0.5.1 to 0.5.12 quantization/modelopt_quant.py ModelOptFp4Config.get_min_capability; "
        "model_loader/loader.py _get_quantization_config",
        since="0.5.1", before="0.5.13",
        way_out="SGLang 0.5.13 or newer emulates from 8.0 on, and so does vLLM",
    ),
    Rule(
        _S, ("nvfp4-modelopt",), ((12, 0), (13, 0)), "fails",
        "takes experts in NVFP4 on 10.x only, not on 12.x",
        "sglang 0.5.1 to 0.5.4 quantization/modelopt_quant.py is_sm100_supported",
        since="0.5.1", before="0.5.5", experts=True, way_out="SGLang 0.5.5 or newer",
    ),
    Rule(
        _S, ("nvfp4-modelopt",), ((8, 0), (10, 0)), "fails",
        "is told to use kernels that need FP4 units, which come with compute capability 10.0",
        "sglang 0.5.13, 0.5.23 quantization/modelopt_quant.py ModelOptFp4LinearMethod, "
        "ModelOptNvFp4FusedMoEMethod",
        since="0.5.13", kernels="native",
        way_out="leave --fp4-gemm-backend and --moe-runner-backend out, or set them to marlin",
    ),
    Rule(
        _S, ("nvfp4-modelopt",), ((8, 0), (10, 0)), "emulated", _MARLIN,
        "sglang 0.5.13, 0.5.23 quantization/fp4_utils.py initialize_fp4_gemm_config",
        since="0.5.13",
    ),
    Rule(
        _S, ("nvfp4-modelopt",), ((0, 0), (8, 0)), "fails",
        "takes ModelOpt NVFP4 from compute capability 8.0 on (Marlin)",
        "sglang 0.5.13, 0.5.23 quantization/modelopt_quant.py ModelOptFp4Config.get_min_capability",
        since="0.5.13", way_out="vLLM emulates from 7.5 on",
    ),
    Rule(
        _S, ("nvfp4-compressed",), ((0, 0), (13, 0)), "fails",
        "does not know NVFP4 of compressed-tensors",
        "sglang 0.5.1, 0.5.6 quantization/compressed_tensors/schemes",
        since="0.5.1", before="0.5.7", way_out="SGLang 0.5.7 or newer, or a ModelOpt checkpoint",
    ),
    Rule(
        _S, ("nvfp4-compressed",), ((0, 0), (10, 0)), "fails",
        "takes NVFP4 of compressed-tensors from compute capability 10.0 on only",
        "sglang 0.5.7 to 0.5.21 quantization/compressed_tensors/compressed_tensors.py",
        since="0.5.7", before="0.5.22",
        way_out="SGLang 0.5.22 or newer emulates from 8.0 on, and so does vLLM",
    ),
    Rule(
        _S, ("nvfp4-compressed",), ((8, 0), (10, 0)), "emulated", _MARLIN,
        "sglang 0.5.22, 0.5.23 quantization/compressed_tensors/compressed_tensors.py; "
        "schemes/compressed_tensors_w4a16_nvfp4.py",
        since="0.5.22",
    ),
    Rule(
        _S, ("nvfp4-compressed",), ((0, 0), (8, 0)), "fails",
        "takes NVFP4 of compressed-tensors from compute capability 8.0 on (Marlin)",
        "sglang 0.5.22 quantization/compressed_tensors/schemes/compressed_tensors_w4a16_nvfp4.py",
        since="0.5.22", way_out="vLLM emulates from 7.5 on",
    ),
    Rule(
        _S, ("nvfp4-modelopt", "nvfp4-compressed"), ((10, 0), (13, 0)), "emulated",
        "is told to use kernels that compute in 16 bits, and leaves the FP4 units idle",
        "sglang 0.5.13, 0.5.23 quantization/modelopt_quant.py get_fp4_gemm_runner_backend().is_marlin()",
        since="0.5.13", kernels="weight-only",
        way_out="leave the backend out of the command, unless older cards share this pipeline",
    ),
    Rule(
        _S, ("nvfp4-modelopt", "nvfp4-compressed"), ((11, 0), (12, 0)), "fails",
        "counts 10.x and 12.x as Blackwell, not 11.x, and refuses the experts",
        "sglang 0.5.5 to 0.5.8 utils/common.py is_blackwell_supported; sgl-project/sglang#18071",
        since="0.5.5", before="0.5.9", experts=True, way_out="SGLang 0.5.9 or newer",
    ),
    Rule(
        _S, ("nvfp4-modelopt", "nvfp4-compressed"), ((10, 0), (13, 0)), "native", _NATIVE_FP4,
        "sglang 0.5.5, 0.5.12 utils/common.py is_blackwell_supported: majors 10, 11, 12",
        since="0.5.5",
    ),
    Rule(
        _S, ("nvfp4-modelopt",), ((10, 0), (11, 0)), "native", _NATIVE_FP4,
        "sglang 0.5.1, 0.5.4 quantization/modelopt_quant.py is_sm100_supported",
        since="0.5.1",
    ),
)  # fmt: skip

_MXFP4_RULES = (
    Rule(
        _S, ("mxfp4",), ((0, 0), (8, 0)), "fails",
        "takes MXFP4 from compute capability 8.0 on",
        "sglang 0.5.1 to 0.5.23 quantization/mxfp4.py Mxfp4Config.get_min_capability",
        since="0.5.1", way_out="llama.cpp with an MXFP4 GGUF",
    ),
    Rule(
        _S, ("mxfp4",), ((8, 0), (9, 0)), "fails",
        "has the kernels that the command forces from compute capability 9.0 on only",
        "sglang 0.5.12, 0.5.23 quantization/mxfp4.py Mxfp4MoEMethod",
        since="0.5.12", kernels="native", way_out="leave --moe-runner-backend out",
    ),
    Rule(
        _S, ("mxfp4",), ((8, 0), (9, 0)), "fails",
        "has MXFP4 in Marlin from compute capability 9.0 on only",
        "sglang 0.5.12, 0.5.23 quantization/mxfp4.py Mxfp4MoEMethod.process_weights_after_loading",
        since="0.5.12", kernels="weight-only", way_out="leave --moe-runner-backend out",
    ),
    Rule(
        _S, ("mxfp4",), ((8, 0), (10, 0)), "emulated",
        "keeps the weights in FP4 and computes in 16 bits (Triton), without FP4 units",
        "sglang 0.5.1, 0.5.23 quantization/mxfp4.py _swizzle_mxfp4",
        since="0.5.1",
    ),
    Rule(
        _S, ("mxfp4",), ((10, 0), (11, 0)), "native",
        "computes on the card's FP4 units (FlashInfer)",
        "sglang 0.5.1, 0.5.12 server_args.py; 0.5.23 quantization/mxfp4.py trtllm_sm100",
        since="0.5.1",
    ),
    Rule(
        _S, ("mxfp4",), ((12, 0), (13, 0)), "unknown",
        "chooses a kernel that its later sources call made for 10.x only",
        "sglang 0.5.5, 0.5.9 server_args.py is_blackwell_supported; the remark in 0.5.12",
        since="0.5.5", before="0.5.12", way_out="SGLang 0.5.12 or newer has a kernel for 12.x",
    ),
    Rule(
        _S, ("mxfp4",), ((12, 0), (13, 0)), "emulated",
        "uses the FP4 units of 10.x only; here it computes in 16 bits (Triton)",
        "sglang 0.5.12, 0.5.13 server_args.py is_sm120_supported",
        since="0.5.12", before="0.5.14", way_out="SGLang 0.5.17 or newer",
    ),
    Rule(
        _S, ("mxfp4",), ((12, 0), (13, 0)), "native",
        "computes on the card's FP4 units (FlashInfer)",
        "sglang 0.5.17 arg_groups/overrides.py; 0.5.23 quantization/mxfp4.py cutlass_sm120",
        since="0.5.17",
    ),
)  # fmt: skip

_FP8_RULES = (
    Rule(
        _S, ("fp8-modelopt",), ((0, 0), (8, 9)), "fails",
        "takes ModelOpt FP8 from compute capability 8.9 on",
        "sglang 0.5.1 to 0.5.23 quantization/modelopt_quant.py ModelOptFp8Config.get_min_capability",
        since="0.5.1", way_out="vLLM 0.27.1 or newer emulates from 8.0 on",
    ),
    Rule(
        _S, ("fp8", "fp8-compressed"), ((0, 0), (8, 0)), "fails",
        "takes FP8 from compute capability 8.0 on",
        "sglang 0.5.1 to 0.5.23 quantization/fp8.py; compressed_tensors_w8a16_fp8.py get_min_capability",
        since="0.5.1", way_out="vLLM 0.16 or newer emulates from 7.5 on",
    ),
    Rule(
        _S, ("fp8", "fp8-compressed"), ((8, 0), (8, 9)), "emulated",
        "keeps the weights in FP8 and computes in 16 bits (Marlin), without FP8 units",
        "sglang 0.5.12, 0.5.23 quantization/fp8_utils.py can_auto_enable_marlin_fp8",
        since="0.5.1", experts=False,
    ),
    Rule(
        _S, ("fp8", "fp8-compressed", "fp8-modelopt"), ((8, 9), (13, 0)), "native",
        "computes in FP8 on the card's FP8 units",
        "sglang 0.5.1, 0.5.23 quantization/fp8.py; compressed_tensors_w8a8_fp8.py get_min_capability 89",
        since="0.5.1",
    ),
)  # fmt: skip

_OTHER_RULES = (
    Rule(
        _S, ("int4-compressed",), ((7, 5), (8, 0)), "fails",
        "takes INT4 of compressed-tensors from compute capability 8.0 on",
        "sglang 0.5.6, 0.5.23 quantization/compressed_tensors/schemes/compressed_tensors_wNa16.py",
        since="0.5.6", way_out="vLLM 0.12 or newer takes it from 7.5 on",
    ),
    Rule(
        _S, ("int4-awq", "int4-gptq"), ((7, 5), (13, 0)), "native",
        "keeps the weights in INT4 and computes in 16 bits, as on every card",
        "sglang 0.5.1, 0.5.23 quantization/awq, gptq get_min_capability 75, 60",
        since="0.5.1",
    ),
    Rule(
        _S, ("int4-compressed",), ((8, 0), (13, 0)), "native",
        "keeps the weights in INT4 and computes in 16 bits, as on every card",
        "sglang 0.5.6, 0.5.23 quantization/compressed_tensors/schemes/compressed_tensors_wNa16.py",
        since="0.5.6",
    ),
    Rule(
        _S, ("bf16",), ((7, 5), (8, 0)), "native",
        "has no BF16 units here and computes in FP16 instead",
        "sglang 0.5.1, 0.5.12 model_executor/model_runner.py; 0.5.23 load_model_utils.py",
        since="0.5.1",
    ),
    Rule(
        _S, ("bf16",), ((8, 0), (13, 0)), "native",
        "computes in BF16 on the card's 16-bit units",
        "sglang 0.5.1, 0.5.12 model_executor/model_runner.py; 0.5.23 load_model_utils.py",
        since="0.5.1",
    ),
    Rule(
        _S, ("fp16",), ((7, 5), (13, 0)), "native",
        "computes in FP16 on the card's 16-bit units",
        "sglang 0.5.1, 0.5.12 model_executor/model_runner.py; 0.5.23 load_model_utils.py",
        since="0.5.1",
    ),
)  # fmt: skip

SGLANG: tuple[Rule, ...] = (
    Rule(
        _S, _EVERY, ((0, 0), (7, 5)), "fails",
        "supports compute capability 7.5 and above only",
        "sglang 0.5.1, 0.5.12 model_executor/model_runner.py; 0.5.23 load_model_utils.py",
        since="0.5.1", way_out="llama.cpp with GGUF",
    ),
    *_NVFP4_RULES,
    *_MXFP4_RULES,
    *_FP8_RULES,
    *_OTHER_RULES,
)  # fmt: skip
