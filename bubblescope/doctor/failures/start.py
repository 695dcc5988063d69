"""What stops an engine before it has begun."""

from __future__ import annotations

from bubblescope.doctor.failures.failure import failure

START = (
    failure(
        "unknown-option",
        r"error: (?:unrecognized arguments|invalid argument): (?P<words>\S{1,80})",
        "The engine does not know the option {words}",
        "this version has no option of that name, or it is misspelled",
        "--help of the same program lists what there is",
        "argparse, seen with vllm 0.32.0; llama.cpp common/arg.cpp",
        whole=True,
    ),
    failure(
        "gated-model",
        r"(?:Cannot access gated repo|You are trying to access a gated repo)",
        "The hub does not give the model to this user",
        "it is gated: its owner wants the licence accepted, and a token that shows who asks",
        "accept it on the model's page, then `hf auth login` or HF_TOKEN",
        "huggingface_hub, transformers; vllm#8331",
        whole=True,
    ),
    failure(
        "model-not-cached",
        r"(?:Cannot find an appropriate cached snapshot folder for the specified revision"
        r"|to load the files, and couldn't find them in the cached files)",
        "The model was not found",
        "it is not in the cache, and the hub was not asked (HF_HUB_OFFLINE) or not reached",
        "the path of a folder, the right name, or a download beforehand",
        "huggingface_hub, transformers utils/hub.py, seen with vllm 0.32.0 and sglang 0.5.21",
        whole=True,
    ),
    failure(
        "no-such-model",
        r"(?:Repository Not Found for url|is not a local folder and is not a valid model identifier)",
        "The model was not found",
        "there is no such folder, and the hub has no such name or does not show it to this user",
        "the path, the name, or a login for a gated model",
        "transformers utils/hub.py; huggingface_hub",
        whole=True,
    ),
    failure(
        "no-such-model",
        r"failed to open GGUF file '(?P<file>[^'\n]{1,200})' \((?P<cause>[^)\n]{1,80})\)",
        "llama.cpp could not open the model {file}",
        "{cause}",
        "name a GGUF file that can be read",
        "seen with llama.cpp b11434",
        whole=True,
    ),
    failure(
        "unknown-architecture",
        r"Model architectures (?P<names>\[[^\]\n]{1,80}\]) are not supported for now",
        "vLLM does not know this kind of model",
        "it has no code for {names}",
        "a newer vLLM",
        "vllm model_executor/models/registry.py",
        whole=True,
    ),
    failure(
        "unknown-architecture",
        r"unknown model architecture: (?P<name>'[\w.-]{1,60}')",
        "llama.cpp does not know this kind of model",
        "it has no code for {name}",
        "a newer llama.cpp",
        "ggml-org/llama.cpp#24001, abetlen/llama-cpp-python#1994",
        whole=True,
    ),
    failure(
        "unknown-quantization",
        r"Unknown quantization method: (?P<method>[\w.-]{1,40})\. Must be one of",
        "The engine does not know the checkpoint's quantization {method}",
        "it is not in its list",
        "a newer engine, or another format",
        "vllm config/model.py",
        whole=True,
    ),
    failure(
        "port-in-use",
        r"(?:\[Errno 98\] (?:Address already in use|error while attempting to bind on address)"
        r"|name: EADDRINUSE|couldn't bind HTTP server socket)",
        "The port is taken",
        "something listens there already, often the same server from before",
        "end the other program, or another --port",
        "seen with vllm 0.32.0; vllm#39015; llama.cpp tools/server, neavo/OneClickLLAMA#10",
        whole=True,
    ),
    failure(
        "driver-too-old",
        r"(?:The NVIDIA driver on your system is too old \(found version (?P<found>[0-9]{4,6})\)"
        r"|CUDA driver version is insufficient for CUDA runtime version)",
        "The NVIDIA driver is too old for this build",
        "torch or the engine was built with a newer CUDA than the driver knows",
        "a newer driver, or a build for the CUDA version that nvidia-smi shows",
        "torch; modelscope/FunASR#2973",
        whole=True,
    ),
    failure(
        "no-gpu",
        r"(?:Failed to infer device type|No CUDA GPUs are available|Found no NVIDIA driver on your system)",
        "The engine sees no GPU",
        "there is no driver, the process has no access to the cards, or CUDA_VISIBLE_DEVICES hides them",
        "nvidia-smi in the same container; with docker --gpus all",
        "vllm 0.32.0 config/device.py; torch",
        whole=True,
    ),
)
