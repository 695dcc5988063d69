"""Known ways in which an engine dies, as data: what it then says, and what that means.

A pattern takes what it needs by name: `minimum` and `current` are compute capabilities without the dot,
`method` and others are quoted in the explanation. Specific ones stand before general ones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Failure:
    """One known failure.

    id: for scripts. pattern: in the engine's own output, each within a few lines.
    what: the sentence about what happened; why, do: what follows it. All are format strings over the
    pattern's groups.
    source: version and file that raises it, or the public report in which it was seen.
    """

    id: str
    pattern: re.Pattern[str]
    what: str
    why: str
    do: str
    source: str


def _failure(id: str, pattern: str, what: str, why: str, do: str, source: str) -> Failure:
    """In a pattern a space stands for any blank between two words, as logs fold long lines."""
    return Failure(id, re.compile(pattern.replace(" ", r"\s{1,40}")), what, why, do, source)


FAILURES = (
    _failure(
        "quantization-capability",
        r"The quantization method (?P<method>[\w.-]{1,40}) is not supported for the current GPU\. "
        r"Minimum capability: (?P<minimum>[0-9]{2,3})\. Current capability: (?P<current>[0-9]{2,3})",
        "The engine refused the checkpoint's quantization {method}",
        "this version computes it from compute capability {minimum} on, and that GPU has {current}",
        "upgrade the engine (SGLang 0.5.13 and vLLM 0.16 emulate NVFP4), leave that GPU out, or take another "
        "format",
        "sglang 0.5.1 to 0.5.12 model_loader/loader.py; vllm config/vllm.py _get_quantization_config",
    ),
    _failure(
        "scheme-capability",
        r"Quantization scheme is not supported for[ ',]{1,20}the current GPU\. Min capability: "
        r"(?P<minimum>[0-9]{2,3})\.[ ',]{1,20}Current capability: (?P<current>[0-9]{2,3})",
        "The engine refused a quantization scheme of the checkpoint",
        "this version computes it from compute capability {minimum} on, and that GPU has {current}",
        "upgrade the engine, leave that GPU out, or take another format",
        "sglang, vllm quantization/compressed_tensors/compressed_tensors.py _check_scheme_supported",
    ),
    _failure(
        "nvfp4-moe-backend",
        r"Current platform does not support NVFP4 quantization with the selected MoE backend",
        "SGLang refused the NVFP4 experts",
        "--moe-runner-backend forces kernels that need FP4 units",
        "leave --moe-runner-backend out, or set it to marlin (from compute capability 8.0 on)",
        "sglang 0.5.13, 0.5.23 quantization/modelopt_quant.py ModelOptNvFp4FusedMoEMethod",
    ),
    _failure(
        "nvfp4-dense-backend",
        r"ModelOpt NVFP4 native dense GEMM backends require SM100\+",
        "SGLang refused the NVFP4 weights",
        "the kernels that were chosen need FP4 units; --fp4-gemm-backend forces them, or they are taken "
        "because the first visible GPU has such units",
        "--fp4-gemm-backend marlin, or SGLANG_ONE_VISIBLE_DEVICE_PER_PROCESS=1 on a rig of several kinds",
        "sglang 0.5.13, 0.5.23 quantization/modelopt_quant.py ModelOptFp4LinearMethod",
    ),
    _failure(
        "nvfp4-platform",
        r"Current platform does not support NVFP4 quantization\. Please use Blackwell",
        "The engine refused the NVFP4 weights",
        "this version has kernels for Blackwell only, and SGLang before 0.5.5 not for 12.x",
        "SGLang 0.5.13 or newer (it emulates from 8.0 on), vLLM 0.16 or newer, or leave older GPUs out",
        "sglang 0.5.1 to 0.5.12 modelopt_quant.py, sgl-project/sglang#18071; vllm 0.10.2, vllm#30720",
    ),
    _failure(
        "nvfp4-compressed",
        r"Current platform does not support w4a4 nvfp4 quantization",
        "SGLang refused the NVFP4 weights",
        "before 0.5.22 it takes NVFP4 of compressed-tensors from compute capability 10.0 on only",
        "SGLang 0.5.22 or newer, a ModelOpt checkpoint with 0.5.13 or newer, or vLLM",
        "sglang 0.5.7 to 0.5.21 quantization/compressed_tensors/compressed_tensors.py",
    ),
    _failure(
        "mxfp4-marlin",
        r"MXFP4 Marlin requires (?:Hopper/SM90 or above|SM90\+)",
        "SGLang refused the MXFP4 experts",
        "Marlin has them from compute capability 9.0 on only",
        "leave --moe-runner-backend out: the Triton kernels take them from 8.0 on",
        "sglang 0.5.12, 0.5.23 quantization/mxfp4.py",
    ),
    _failure(
        "mxfp4-flashinfer",
        r"moe_runner_backend=flashinfer_mxfp4 requires SM90",
        "SGLang refused the MXFP4 experts",
        "flashinfer_mxfp4 has kernels for 9.0, 10.x and 12.x only",
        "leave --moe-runner-backend out",
        "sglang 0.5.23 quantization/mxfp4.py",
    ),
    _failure(
        "nvfp4-kv-cache",
        r"(?:-kv-cache-dtype[ =]nvfp4 requires (?:Blackwell SM100 or SM120|the SM100 trtllm-gen|sm100f))",
        "The engine refused an NVFP4 KV cache",
        "its kernels go by the family of the card: 12.0 is not 10.0 and up, and older cards have none",
        "--kv-cache-dtype fp8 or auto",
        "sglang 0.5.23 arg_groups/kv_cache_hook.py; vllm 0.26.0 flashinfer.py, vllm#43562",
    ),
    _failure(
        "nvfp4-moe-none",
        r"No NvFp4 MoE backend supports the deployment configuration",
        "vLLM found no kernel for the NVFP4 experts",
        "none of its backends takes this model's experts (activation, shape or card)",
        "a newer vLLM or another checkpoint format; VLLM_LOGGING_LEVEL=DEBUG shows each backend's reason",
        "vllm 0.15.0 to 0.33.0 model_executor/layers/fused_moe/oracle/nvfp4.py; vllm#35065, vllm#45661",
    ),
    _failure(
        "moe-backend-refused",
        r"MoE backend '(?P<backend>[\w ]{1,40})' does not support the deployment configuration"
        r"(?: since (?P<cause>[^\n.]{1,120}))?",
        "vLLM refused the backend {backend} for the experts",
        "the command or an environment variable forces it, and it says: {cause}",
        "leave --moe-backend and VLLM_USE_FLASHINFER_MOE_* out; on 12.x take vLLM 0.16 or newer",
        "vllm 0.15.0 to 0.33.0 model_executor/layers/fused_moe/oracle; vllm#33416",
    ),
    _failure(
        "nvfp4-linear-none",
        r"Failed to find a kernel that can implement the NVFP4 linear layer",
        "vLLM found no kernel for the NVFP4 weights",
        "each was refused for the reasons that stand below that line; often --linear-backend forces one",
        "leave --linear-backend out",
        "vllm 0.26.0, 0.33.0 model_executor/kernels/linear/__init__.py init_nvfp4_linear_kernel",
    ),
    _failure(
        "nvfp4-not-compiled",
        r"No compiled nvfp4 mm kernel for SM (?P<current>[0-9]{2,3})",
        "vLLM has no FP4 kernel for a GPU",
        "it was chosen because the first visible GPU has FP4 units, or this build lacks that card's kernels",
        "on a rig of several kinds an old card first in CUDA_VISIBLE_DEVICES; else a newer vLLM",
        "vllm 0.12.0, 0.14.1 csrc/quantization/fp4/nvfp4_scaled_mm_entry.cu; vllm#19741",
    ),
    _failure(
        "bf16",
        r"Bfloat16 is only supported on GPUs with compute capability of at least 8\.0",
        "vLLM refused BF16",
        "cards before compute capability 8.0 have no BF16 units",
        "--dtype half",
        "vllm 0.10.2 to 0.33.0 platforms/cuda.py",
    ),
    _failure(
        "sglang-sm75",
        r"SGLang only supports sm75 and above",
        "SGLang refused a GPU",
        "it supports compute capability 7.5 and above only",
        "leave that GPU out, or take llama.cpp",
        "sglang 0.5.1 to 0.5.23",
    ),
    _failure(
        "llama-no-device-code",
        r"(?:has no device code compatible with (?:CUDA|HIP) arch|ggml was not compiled with any CUDA arch)",
        "llama.cpp has no code for a GPU",
        "this build was compiled without its architecture; the number format plays no part in it",
        "build with that card's architecture in CMAKE_CUDA_ARCHITECTURES; below 7.5 that needs CUDA 12",
        "llama.cpp b11434 ggml-cuda/common.cuh no_device_code; ggml-org/llama.cpp#6529, #15593",
    ),
    _failure(
        "no-kernel-image",
        r"no kernel image is available for execution on the device",
        "A CUDA kernel was built without code for a GPU",
        "this build of torch or of the engine does not hold the card's architecture, or kernels of a newer "
        "kind of card were chosen for it",
        "a build for that card (for 12.x: CUDA 12.8 or newer); on a rig of several kinds an old card first "
        "in CUDA_VISIBLE_DEVICES",
        "torch; vllm#29141, sgl-project/sglang#7249",
    ),
    _failure(
        "triton-partition",
        r"get_value_buffer(?:[^\n]*\n){1,12}?[^\n]*IndexError: list index out of range",
        "SGLang's triton attention backend looked for a layer outside its stage",
        "before 0.5.18 it asks each stage for layer 0, which a stage that begins later than it is long lacks",
        "SGLang 0.5.18 or newer, --attention-backend torch_native or flashinfer, or an even split in two",
        "sglang 0.5.1 to 0.5.17 layers/attention/triton_backend.py, seen with 0.5.17 and a split of 27,9",
    ),
    _failure(
        "partition-length",
        r"len\(partitions\)=(?P<given>[0-9]+) does not match pp_size=(?P<stages>[0-9]+)",
        "The engine refused the layer partition",
        "it names {given} stages, and {stages} were started",
        "one number for each stage in VLLM_PP_LAYER_PARTITION or SGLANG_PP_LAYER_PARTITION",
        "vllm, sglang distributed/utils.py get_pp_indices",
    ),
    _failure(
        "partition-sum",
        r"sum\(partitions\)=(?P<given>[0-9]+) does not match num_hidden_layers=(?P<layers>[0-9]+)",
        "The engine refused the layer partition",
        "it sums to {given} layers, and the model has {layers}",
        "numbers that sum to {layers} in VLLM_PP_LAYER_PARTITION or SGLANG_PP_LAYER_PARTITION",
        "vllm, sglang distributed/utils.py get_pp_indices",
    ),
    _failure(
        "kv-cache-too-small",
        r"To serve at least one request with the models?'s max seq len \((?P<tokens>[0-9]+)\), "
        r"\((?P<need>[0-9.]+) GiB KV cache is needed, which is larger than the available KV cache memory "
        r"\((?P<room>[0-9.]+) GiB\)",
        "vLLM has too little memory for the KV cache",
        "one request of {tokens} tokens needs {need} GiB, and {room} GiB are left on the fullest stage; vLLM "
        "0.14 to 0.16 asks each stage for all layers",
        "a smaller --max-model-len, fewer layers for that stage, or a higher --gpu-memory-utilization",
        "vllm v1/core/kv_cache_utils.py; vllm#34076",
    ),
    _failure(
        "no-kv-cache",
        r"No available memory for the cache blocks",
        "vLLM has no memory left for the KV cache",
        "weights and activations fill a stage's part of its card",
        "fewer layers for that stage, or a higher --gpu-memory-utilization",
        "vllm v1/core/kv_cache_utils.py",
    ),
    _failure(
        "free-memory",
        r"Free memory on device[^\n(]{0,40}\((?P<free>[0-9.]+)/(?P<all>[0-9.]+) GiB\) on startup is less",
        "vLLM found less free memory than it is told to use",
        "{free} of {all} GiB are free: something else uses the card",
        "end the other program, or a lower --gpu-memory-utilization",
        "vllm v1/worker/gpu_worker.py, v1/worker/utils.py",
    ),
    _failure(
        "sglang-memory",
        r"Not enough memory\. Please try to increase --mem-fraction-static",
        "SGLang has too little memory for the KV cache",
        "the weights fill --mem-fraction-static of a card",
        "fewer layers for that stage, or a higher --mem-fraction-static",
        "sglang 0.5.12, 0.5.23 model_executor/pool_configurator.py",
    ),
    _failure(
        "out-of-memory",
        r"(?:OutOfMemoryError: CUDA out of memory|cudaMalloc failed: out of memory)",
        "A GPU ran out of memory",
        "weights, KV cache and activations do not fit",
        "fewer layers for that stage, smaller chunks, or a shorter context",
        "torch; llama.cpp b11434 ggml-cuda.cu",
    ),
    _failure(
        "no-such-model",
        r"(?:Repository Not Found for url|is not a local folder and is not a valid model identifier)",
        "The model was not found",
        "there is no such folder, and the hub has no such name or does not show it to this user",
        "the path, the name, or a login for a gated model",
        "transformers utils/hub.py; huggingface_hub",
    ),
)
