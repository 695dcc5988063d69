"""What engines raise, in the shapes of their logs: the failure, and the words. A comment names the report."""

from __future__ import annotations

RAISED: list[tuple[str, str]] = [
    (
        "quantization-capability",
        "[2026-05-02 10:11:12 PP1 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
        '  File "/v/lib/python3.12/site-packages/sglang/srt/model_loader/loader.py", line 253, in '
        "_get_quantization_config\n    raise ValueError(\n"
        "ValueError: The quantization method modelopt_fp4 is not supported for the current GPU. "
        "Minimum capability: 100. Current capability: 89.\n",
    ),
    # vllm#22422
    (
        "quantization-capability",
        "Value error, The quantization method mxfp4 is not supported for the current GPU. Minimum "
        "capability: 100. Current capability: 86. [type=value_error, input_value=ArgsKwargs(()), "
        "input_type=ArgsKwargs]",
    ),
    # vllm#14040
    (
        "scheme-capability",
        "(EngineCore_DP0 pid=585) ERROR 09-16 17:46:22 [core.py:718] RuntimeError: ('Quantization "
        "scheme is not supported for ', 'the current GPU. Min capability: 80. ', 'Current capability: 75.')",
    ),
    (
        "scheme-capability",
        "RuntimeError: Quantization scheme is not supported for the current GPU. Min capability: 89. "
        "Current capability: 86.",
    ),
    # sgl-project/sglang#18071
    (
        "nvfp4-platform",
        "ValueError: Current platform does not support NVFP4 quantization. Please use Blackwell and above.",
    ),
    # vllm#30720
    (
        "nvfp4-platform",
        "ValueError: Current platform does not support NVFP4 quantization. Please use Blackwell GPUs or "
        "enable FlashInfer.",
    ),
    (
        "nvfp4-moe-backend",
        "ValueError: Current platform does not support NVFP4 quantization with the selected MoE "
        "backend. Please use Blackwell and above, or use moe_runner_backend=marlin on SM80+.",
    ),
    (
        "nvfp4-dense-backend",
        "ValueError: ModelOpt NVFP4 native dense GEMM backends require SM100+. Use "
        "--fp4-gemm-backend marlin on SM80-SM90.",
    ),
    ("nvfp4-compressed", "NotImplementedError: Current platform does not support w4a4 nvfp4 quantization."),
    ("mxfp4-marlin", "RuntimeError: MXFP4 Marlin requires Hopper/SM90 or above."),
    ("mxfp4-marlin", "RuntimeError: MXFP4 Marlin requires SM90+."),
    (
        "mxfp4-flashinfer",
        "NotImplementedError: moe_runner_backend=flashinfer_mxfp4 requires SM90, SM100, or SM120.",
    ),
    ("nvfp4-kv-cache", "RuntimeError: --kv-cache-dtype=nvfp4 requires Blackwell SM100 or SM120. Use"),
    # noonghunna/club-3090#574, vllm#43562
    ("nvfp4-kv-cache", "ValueError: --kv-cache-dtype nvfp4 requires sm100f"),
    (
        "nvfp4-kv-cache",
        "ValueError: --kv-cache-dtype nvfp4 requires the SM100 trtllm-gen FlashInfer path.",
    ),
    # vllm#35065, vllm#45661
    ("nvfp4-moe-none", "NotImplementedError: No NvFp4 MoE backend supports the deployment configuration."),
    # vllm#33416, folded as it was posted
    (
        "moe-backend-refused",
        "ValueError: NvFp4 MoE backend 'FLASHINFER_CUTLASS' does not support the \n"
        "deployment configuration since kernel does not support current device.",
    ),
    (
        "nvfp4-linear-none",
        "ValueError: Failed to find a kernel that can implement the NVFP4 linear layer. Reasons: \n"
        "MarlinNvFp4LinearKernel: Marlin FP4 not available",
    ),
    ("nvfp4-not-compiled", "NotImplementedError: No compiled nvfp4 mm kernel for SM 89, recompile with CUDA"),
    (
        "bf16",
        "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0. "
        "Your Tesla T4 GPU has compute capability 7.5. You can use float16 instead by explicitly setting "
        "the `dtype` flag",
    ),
    ("sglang-sm75", "RuntimeError: SGLang only supports sm75 and above."),
    (
        "llama-no-device-code",
        "/src/ggml-cuda/mmq.cuh:2586: ERROR: CUDA kernel mul_mat_q has no device code compatible "
        "with CUDA arch 700. ggml-cuda.cu was compiled for: 750,800,860",
    ),
    # ggml-org/llama.cpp#6529: the architecture is that of the code, not of the card
    (
        "llama-no-device-code",
        "ggml-cuda/convert.cu:64: ERROR: CUDA kernel dequantize_block_q8_0_f16 has no device code compatible "
        "with CUDA arch 520. ggml-cuda.cu was compiled for: 520",
    ),
    # ggml-org/llama.cpp#15593
    ("llama-no-device-code", "ggml-cuda/common.cuh:112: ggml was not compiled with any CUDA arch <= 750"),
    # vllm#29141
    (
        "no-kernel-image",
        "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device",
    ),
    # sgl-project/sglang#7249
    (
        "no-kernel-image",
        "Exception: Capture cuda graph failed: RMSNorm failed with error code no kernel image is "
        "available for execution on the device",
    ),
    # Seen with SGLang 0.5.17 and a split of 27,9.
    (
        "triton-partition",
        '  File "/v/sglang/srt/mem_cache/memory_pool.py", line 2300, in get_value_buffer\n'
        "    return self._get_value_buffer(layer_id)\n"
        '  File "/v/sglang/srt/mem_cache/memory_pool.py", line 2294, in _get_value_buffer\n'
        "    return self.v_buffer[local_layer_id]\n"
        "IndexError: list index out of range\n",
    ),
    ("partition-length", "ValueError: len(partitions)=3 does not match pp_size=2."),
    ("partition-sum", "ValueError: sum(partitions)=37 does not match num_hidden_layers=36."),
    # vllm#34076
    (
        "kv-cache-too-small",
        "(EngineCore_DP0 pid=1094) ValueError: To serve at least one request with the models's max seq len "
        "(262144), (24.0 GiB KV cache is needed, which is larger than the available KV cache memory "
        "(3.18 GiB). Based on the available memory, the estimated maximum model length is 34736.",
    ),
    (
        "no-kv-cache",
        "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when "
        "initializing the engine.",
    ),
    (
        "free-memory",
        "ValueError: Free memory on device cuda:1 (10.21/23.99 GiB) on startup is less than desired "
        "GPU memory utilization (0.92, 22.07 GiB).",
    ),
    ("sglang-memory", "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."),
    (
        "out-of-memory",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total",
    ),
    (
        "out-of-memory",
        "ggml_backend_cuda_buffer_type_alloc_buffer: allocating: cudaMalloc failed: out of memory",
    ),
    (
        "no-such-model",
        "OSError: no-org/no-model is not a local folder and is not a valid model identifier listed",
    ),
    # vllm#30140
    (
        "too-few-gpus",
        "ValueError: World size (4) is larger than the number of available GPUs (2) in this node. If this is",
    ),
    # vllm#15217
    (
        "too-few-gpus",
        "RuntimeError: please ensure that world_size (2) is less than than max local gpu count (1)",
    ),
    # vllm#28873
    (
        "too-few-gpus",
        "AssertionError: local_world_size (16) must be less than or equal to the number of visible devices "
        "(8).",
    ),
    (
        "heads-not-divisible",
        "pydantic_core.ValidationError: Value error, Total number of attention heads (14) must be "
        "divisible by tensor parallel size (4).",
    ),
    # vllm#16231
    (
        "pipeline-unsupported",
        "NotImplementedError: Pipeline parallelism is not supported for this model. Supported models "
        "implement the `SupportsPP` interface.",
    ),
    # vllm#9015
    (
        "pipeline-unsupported",
        "NotImplementedError: Pipeline parallelism is only supported for the following  architectures: "
        "['AquilaForCausalLM']",
    ),
    # sgl-project/sglang#19503
    ("pipeline-unsupported", "AssertionError: Pipeline Parallel is not compatible with this model."),
    (
        "out-of-memory",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 224.00 MiB. GPU 0 has a total "
        "capacity of 31.36 GiB of which 94.69 MiB is free.",
    ),
    ("out-of-memory", "torch.AcceleratorError: CUDA error: out of memory"),
    (
        "out-of-memory",
        "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 20480.00 MiB on device 1: cudaMalloc failed: "
        "out of memory",
    ),
    # ollama/ollama#11388
    ("out-of-memory", "llama_model_load: error loading model: unable to allocate CUDA0 buffer"),
    (
        "context-too-long",
        "Value error, User-specified max_model_len (131072) is greater than the derived max_model_len "
        "(max_position_embeddings=16384 or model_max_length=None in model's config.json).",
    ),
    (
        "host-memory",
        "RuntimeError: [enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate "
        "memory: you tried to allocate",
    ),
    # Seen with vLLM 0.32.0.
    ("unknown-option", "vllm: error: unrecognized arguments: --no-such-flag"),
    ("unknown-option", "error: invalid argument: --no-such-flag"),
    # McGill-NLP/llm2vec#130
    (
        "gated-model",
        "OSError: You are trying to access a gated repo.\n401 Client Error. (Request ID: Root=1)\n\n"
        "Cannot access gated repo for url",
    ),
    # Seen with vLLM 0.32.0.
    (
        "model-not-cached",
        "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find an appropriate cached snapshot folder "
        "for the specified revision on the local disk and outgoing traffic has been disabled.",
    ),
    # Seen with llama.cpp b11434.
    (
        "no-such-model",
        "gguf_init_from_file: failed to open GGUF file 'nowhere.gguf' (No such file or directory)\n"
        "llama_model_load: error loading model: llama_model_loader: failed to load model from nowhere.gguf",
    ),
    # Seen with SGLang 0.5.21.
    (
        "model-not-cached",
        "OSError: We couldn't connect to 'https://hub.example' to load the files, and couldn't find them in "
        "the cached files.",
    ),
    (
        "unknown-architecture",
        "Value error, Model architectures ['NoSuchForCausalLM'] are not supported for now. Supported",
    ),
    # abetlen/llama-cpp-python#1994
    (
        "unknown-architecture",
        "llama_model_load: error loading model: error loading model architecture: unknown model "
        "architecture: 'llama4'",
    ),
    (
        "unknown-quantization",
        "Value error, Unknown quantization method: nvfp5. Must be one of ['awq', 'fp8']",
    ),
    # Seen with vLLM 0.32.0.
    ("port-in-use", "OSError: [Errno 98] Address already in use"),
    (
        "port-in-use",
        "ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', 30000): address",
    ),
    # vllm#39015
    (
        "port-in-use",
        "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network "
        "address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
    ),
    # neavo/OneClickLLAMA#10
    ("port-in-use", "main: couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 8080"),
    # modelscope/FunASR#2973
    (
        "driver-too-old",
        "RuntimeError: The NVIDIA driver on your system is too old (found version 12080). Please update",
    ),
    ("no-gpu", "RuntimeError: Failed to infer device type, please set the environment variable"),
    ("no-gpu", "RuntimeError: No CUDA GPUs are available"),
    # MiniMax-AI/MiniMax-01#42
    (
        "shared-memory",
        "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:268, unhandled system error\n"
        "NCCL WARN Error while creating shared memory segment /dev/shm/nccl-xxxxx (size 7340384)",
    ),
    # vllm#25650
    (
        "illegal-memory-access",
        "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
    ),
    # vllm#23448
    (
        "nccl-timeout",
        "[rank0]:[E822 16:31:16.1 ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=5730, OpType=BROADCAST, NumelIn=3612672, NumelOut=3612672, "
        "Timeout(ms)=600000) ran for 600009 milliseconds before timing out.",
    ),
    # sgl-project/sglang#4289
    (
        "nccl",
        "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)",
    ),
    # MiniMax-AI/MiniMax-01#42
    (
        "nccl",
        "torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/"
        "NCCLUtils.hpp:268, unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version",
    ),
]
