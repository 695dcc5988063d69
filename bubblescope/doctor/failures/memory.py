"""What does not fit."""

from __future__ import annotations

from bubblescope.doctor.failures.failure import failure

MEMORY = (
    failure(
        "kv-cache-too-small",
        r"To serve at least one request with the models?'s max seq len \((?P<tokens>[0-9]+)\), "
        r"\((?P<need>[0-9.]+) GiB KV cache is needed, which is larger than the available KV cache memory "
        r"\((?P<room>[0-9.]+) GiB\)",
        "vLLM has too little memory for the KV cache",
        "one request of {tokens} tokens needs {need} GiB, and {room} GiB are left on the fullest stage",
        "a smaller --max-model-len, fewer layers for that stage, a higher --gpu-memory-utilization, or, "
        "where it is vLLM 0.14 to 0.16, which count all layers on each stage, a newer one",
        "vllm v1/core/kv_cache_utils.py; vllm#34076",
    ),
    failure(
        "no-kv-cache",
        r"No available memory for the cache blocks",
        "vLLM has no memory left for the KV cache",
        "weights, activations and what other programs hold fill a stage's part of its card",
        "end other programs there, fewer layers for that stage, or a higher --gpu-memory-utilization",
        "vllm v1/core/kv_cache_utils.py",
    ),
    failure(
        "free-memory",
        r"Free memory on device[^\n(]{0,40}\((?P<free>[0-9.]+)/(?P<all>[0-9.]+) GiB\) on startup is less",
        "vLLM found less free memory than it is told to use",
        "{free} of {all} GiB are free: something else uses the card",
        "end the other program, or a lower --gpu-memory-utilization",
        "vllm v1/worker/gpu_worker.py, v1/worker/utils.py",
    ),
    failure(
        "sglang-memory",
        r"Not enough memory\. Please try to increase --mem-fraction-static",
        "SGLang has too little memory for the KV cache",
        "the weights fill --mem-fraction-static of a card",
        "fewer layers for that stage, or a higher --mem-fraction-static",
        "sglang 0.5.12, 0.5.23 model_executor/pool_configurator.py",
    ),
    failure(
        "out-of-memory",
        r"CUDA out of memory\. Tried to allocate (?P<wanted>[0-9.]{1,9} [KMG]iB)\. GPU (?P<gpu>[0-9]{1,3}) "
        r"has a total capaci?ty of (?P<all>[0-9.]{1,9} GiB) of which (?P<free>[0-9.]{1,9} [KMG]iB) is free",
        "Memory ran out",
        "{wanted} were asked for, and {free} of {all} were free: weights, KV cache, activations do not fit",
        "fewer layers for that stage, smaller chunks, or a shorter context",
        "torch c10/cuda/CUDACachingAllocator.cpp",
    ),
    failure(
        "out-of-memory",
        r"allocating (?P<wanted>[0-9.]{1,12} MiB) on device (?P<gpu>[0-9]{1,3}): cudaMalloc failed: out of "
        r"memory",
        "Memory ran out",
        "{wanted} were asked for and are not free: weights, KV cache, compute buffers do not fit",
        "a smaller share for it in --tensor-split, a smaller -c or -ub, or fewer layers on GPUs (-ngl)",
        "llama.cpp b11434 ggml-cuda.cu; ggml-org/llama.cpp#7366",
    ),
    failure(
        "out-of-memory",
        r"(?:CUDA out of memory|CUDA error: out of memory|cudaMalloc failed: out of memory"
        r"|unable to allocate CUDA[0-9]{1,3} buffer)",
        "A GPU ran out of memory",
        "weights, KV cache and activations do not fit",
        "fewer layers for that stage, smaller chunks, or a shorter context",
        "torch; llama.cpp b11434 ggml-cuda.cu; ollama/ollama#11388",
    ),
    failure(
        "context-too-long",
        r"max_model_len \((?P<asked>[0-9]+)\) is greater than the derived max_model_len[^\n]{0,120}?="
        r"(?P<most>[0-9]+)",
        "vLLM refused the context length",
        "{asked} tokens are asked for, and the model's config allows {most}",
        "--max-model-len {most}, or rope scaling as the model's card describes it",
        "vllm config/model.py",
    ),
    failure(
        "host-memory",
        r"DefaultCPUAllocator: (?:can't|not enough memory)",
        "The host ran out of memory",
        "a tensor did not fit into it",
        "fewer or smaller processes on this machine, or more memory",
        "torch c10/core/impl/alloc_cpu.cpp",
    ),
)
