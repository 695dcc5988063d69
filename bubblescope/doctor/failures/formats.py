"""Numbers that a card or a kernel does not take."""

from __future__ import annotations

from bubblescope.doctor.failures.failure import failure

FORMATS = (
    failure(
        "quantization-capability",
        r"The quantization method (?P<method>[\w.-]{1,40}) is not supported for the current GPU\. "
        r"Minimum capability: (?P<minimum>[0-9]{2,3})\. Current capability: (?P<current>[0-9]{2,3})",
        "The engine refused the checkpoint's quantization {method}",
        "this version computes it from compute capability {minimum} on, and that GPU has {current}",
        "upgrade the engine (SGLang 0.5.13 and vLLM 0.16 emulate NVFP4), leave that GPU out, or take another "
        "format",
        "sglang 0.5.1 to 0.5.12 model_loader/loader.py; vllm config/vllm.py _get_quantization_config",
    ),
    failure(
        "scheme-capability",
        r"Quantization scheme is not supported for[ ',]{1,20}the current GPU\. Min capability: "
        r"(?P<minimum>[0-9]{2,3})\.[ ',]{1,20}Current capability: (?P<current>[0-9]{2,3})",
        "The engine refused a quantization scheme of the checkpoint",
        "this version computes it from compute capability {minimum} on, and that GPU has {current}",
        "upgrade the engine, leave that GPU out, or take another format",
        "sglang, vllm quantization/compressed_tensors/compressed_tensors.py _check_scheme_supported",
    ),
    failure(
        "nvfp4-moe-backend",
        r"Current platform does not support NVFP4 quantization with the selected MoE backend",
        "SGLang refused the NVFP4 experts",
        "--moe-runner-backend forces kernels that need FP4 units",
        "leave --moe-runner-backend out, or set it to marlin (from compute capability 8.0 on)",
        "sglang 0.5.13, 0.5.23 quantization/modelopt_quant.py ModelOptNvFp4FusedMoEMethod",
    ),
    failure(
        "nvfp4-dense-backend",
        r"ModelOpt NVFP4 native dense GEMM backends require SM100\+",
        "SGLang refused the NVFP4 weights",
        "the kernels that were chosen need FP4 units; --fp4-gemm-backend forces them, or they are taken "
        "because the first visible GPU has such units",
        "--fp4-gemm-backend marlin, or SGLANG_ONE_VISIBLE_DEVICE_PER_PROCESS=1 on a rig of several kinds",
        "sglang 0.5.13, 0.5.23 quantization/modelopt_quant.py ModelOptFp4LinearMethod",
    ),
    failure(
        "nvfp4-platform",
        r"Current platform does not support NVFP4 quantization\. Please use Blackwell",
        "The engine refused the NVFP4 weights",
        "this version has kernels for Blackwell only, and SGLang before 0.5.5 not for 12.x",
        "SGLang 0.5.13 or newer (it emulates from 8.0 on), vLLM 0.16 or newer, or leave older GPUs out",
        "sglang 0.5.1 to 0.5.12 modelopt_quant.py, sgl-project/sglang#18071; vllm 0.10.2, vllm#30720",
    ),
    failure(
        "nvfp4-compressed",
        r"Current platform does not support w4a4 nvfp4 quantization",
        "SGLang refused the NVFP4 weights",
        "before 0.5.22 it takes NVFP4 of compressed-tensors from compute capability 10.0 on only",
        "SGLang 0.5.22 or newer, a ModelOpt checkpoint with 0.5.13 or newer, or vLLM",
        "sglang 0.5.7 to 0.5.21 quantization/compressed_tensors/compressed_tensors.py",
    ),
    failure(
        "mxfp4-marlin",
        r"MXFP4 Marlin requires (?:Hopper/SM90 or above|SM90\+)",
        "SGLang refused the MXFP4 experts",
        "Marlin has them from compute capability 9.0 on only",
        "leave --moe-runner-backend out: the Triton kernels take them from 8.0 on",
        "sglang 0.5.12, 0.5.23 quantization/mxfp4.py",
    ),
    failure(
        "mxfp4-flashinfer",
        r"moe_runner_backend=flashinfer_mxfp4 requires SM90",
        "SGLang refused the MXFP4 experts",
        "flashinfer_mxfp4 has kernels for 9.0, 10.x and 12.x only",
        "leave --moe-runner-backend out",
        "sglang 0.5.23 quantization/mxfp4.py",
    ),
    failure(
        "nvfp4-kv-cache",
        r"(?:-kv-cache-dtype[ =]nvfp4 requires (?:Blackwell SM100 or SM120|the SM100 trtllm-gen|sm100f))",
        "The engine refused an NVFP4 KV cache",
        "its kernels go by the family of the card: 12.0 is not 10.0 and up, and older cards have none",
        "--kv-cache-dtype fp8 or auto",
        "sglang 0.5.23 arg_groups/kv_cache_hook.py; vllm 0.26.0 flashinfer.py, vllm#43562",
    ),
    failure(
        "nvfp4-moe-none",
        r"No NvFp4 MoE backend supports the deployment configuration",
        "vLLM found no kernel for the NVFP4 experts",
        "none of its backends takes this model's experts (activation, shape or card)",
        "a newer vLLM or another checkpoint format; VLLM_LOGGING_LEVEL=DEBUG shows each backend's reason",
        "vllm 0.15.0 to 0.33.0 model_executor/layers/fused_moe/oracle/nvfp4.py; vllm#35065, vllm#45661",
    ),
    failure(
        "moe-backend-refused",
        r"MoE backend '(?P<backend>[\w ]{1,40})' does not support the deployment configuration"
        r"(?: since (?P<cause>[^\n.]{1,120}))?",
        "vLLM refused the backend {backend} for the experts",
        "the command or an environment variable forces it, and it says: {cause}",
        "leave --moe-backend and VLLM_USE_FLASHINFER_MOE_* out; on 12.x take vLLM 0.16 or newer",
        "vllm 0.15.0 to 0.33.0 model_executor/layers/fused_moe/oracle; vllm#33416",
    ),
    failure(
        "nvfp4-linear-none",
        r"Failed to find a kernel that can implement the NVFP4 linear layer",
        "vLLM found no kernel for the NVFP4 weights",
        "each was refused for the reasons that stand below that line; often --linear-backend forces one",
        "leave --linear-backend out",
        "vllm 0.26.0, 0.33.0 model_executor/kernels/linear/__init__.py init_nvfp4_linear_kernel",
    ),
    failure(
        "nvfp4-not-compiled",
        r"No compiled nvfp4 mm kernel for SM (?P<current>[0-9]{2,3})",
        "vLLM has no FP4 kernel for a GPU",
        "it was chosen because the first visible GPU has FP4 units, or this build lacks that card's kernels",
        "on a rig of several kinds an old card first in CUDA_VISIBLE_DEVICES; else a newer vLLM",
        "vllm 0.12.0, 0.14.1 csrc/quantization/fp4/nvfp4_scaled_mm_entry.cu; vllm#19741",
    ),
    failure(
        "bf16",
        r"Bfloat16 is only supported on GPUs with compute capability of at least 8\.0",
        "vLLM refused BF16",
        "cards before compute capability 8.0 have no BF16 units",
        "--dtype half",
        "vllm 0.10.2 to 0.33.0 platforms/cuda.py",
    ),
    failure(
        "sglang-sm75",
        r"SGLang only supports sm75 and above",
        "SGLang refused a GPU",
        "it supports compute capability 7.5 and above only",
        "leave that GPU out, or take llama.cpp",
        "sglang 0.5.1 to 0.5.23",
    ),
    failure(
        "llama-no-device-code",
        r"(?:has no device code compatible with (?:CUDA|HIP) arch|ggml was not compiled with any CUDA arch)",
        "llama.cpp has no code for a GPU",
        "this build was compiled without its architecture; the number format plays no part in it",
        "build with that card's architecture in CMAKE_CUDA_ARCHITECTURES; below 7.5 that needs CUDA 12",
        "llama.cpp b11434 ggml-cuda/common.cuh no_device_code; ggml-org/llama.cpp#6529, #15593",
    ),
    failure(
        "no-kernel-image",
        r"no kernel image is available for execution on the device",
        "A CUDA kernel was built without code for a GPU",
        "this build of torch or of the engine does not hold the card's architecture, or kernels of a newer "
        "kind of card were chosen for it",
        "a build for that card (for 12.x: CUDA 12.8 or newer); on a rig of several kinds an old card first "
        "in CUDA_VISIBLE_DEVICES",
        "torch; vllm#29141, sgl-project/sglang#7249",
    ),
)
