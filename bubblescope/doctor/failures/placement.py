"""Layers over the stages, and stages over the cards."""

from __future__ import annotations

from bubblescope.doctor.failures.failure import failure

PLACEMENT = (
    failure(
        "triton-partition",
        r"get_value_buffer(?:[^\n]*\n){1,12}?[^\n]*IndexError: list index out of range",
        "SGLang's triton attention backend looked for a layer outside its stage",
        "before 0.5.18 it asks each stage for layer 0, which a stage that begins later than it is long lacks",
        "SGLang 0.5.18 or newer, --attention-backend torch_native or flashinfer, or an even split in two",
        "sglang 0.5.1 to 0.5.17 layers/attention/triton_backend.py, seen with 0.5.17 and a split of 27,9",
    ),
    failure(
        "partition-length",
        r"len\(partitions\)=(?P<given>[0-9]+) does not match pp_size=(?P<stages>[0-9]+)",
        "The engine refused the layer partition",
        "it names {given} stages, and {stages} were started",
        "one number for each stage in VLLM_PP_LAYER_PARTITION or SGLANG_PP_LAYER_PARTITION",
        "vllm, sglang distributed/utils.py get_pp_indices",
        whole=True,
    ),
    failure(
        "partition-sum",
        r"sum\(partitions\)=(?P<given>[0-9]+) does not match num_hidden_layers=(?P<layers>[0-9]+)",
        "The engine refused the layer partition",
        "it sums to {given} layers, and the model has {layers}",
        "numbers that sum to {layers} in VLLM_PP_LAYER_PARTITION or SGLANG_PP_LAYER_PARTITION",
        "vllm, sglang distributed/utils.py get_pp_indices",
        whole=True,
    ),
    failure(
        "too-few-gpus",
        r"World size \((?P<ranks>[0-9]+)\) is larger than the number of available GPUs \((?P<gpus>[0-9]+)\)",
        "vLLM was asked for more GPUs than it sees",
        "stages times ranks are {ranks}, and {gpus} are visible",
        "a smaller --pipeline-parallel-size or --tensor-parallel-size, or more cards in CUDA_VISIBLE_DEVICES",
        "vllm 0.12.0, 0.32.0 config/parallel.py; vllm#30140",
        whole=True,
    ),
    failure(
        "too-few-gpus",
        r"world_size \((?P<ranks>[0-9]+)\) (?:is less than than max local gpu count"
        r"|must be less than or equal to the number of visible devices) \((?P<gpus>[0-9]+)\)",
        "vLLM was asked for more GPUs than it sees",
        "stages times ranks are {ranks}, and {gpus} are visible",
        "a smaller --pipeline-parallel-size or --tensor-parallel-size, or more cards in CUDA_VISIBLE_DEVICES",
        "vllm v1/worker/gpu_worker.py; vllm#15217, vllm#28873",
        whole=True,
    ),
    failure(
        "heads-not-divisible",
        r"Total number of attention heads \((?P<heads>[0-9]+)\) must be divisible by tensor parallel size "
        r"\((?P<ranks>[0-9]+)\)",
        "vLLM cannot share the attention heads",
        "{heads} heads do not divide among {ranks} ranks; stages need no such divisor",
        "a --tensor-parallel-size that divides {heads}, and the rest of the cards as pipeline stages",
        "vllm config/model.py",
        whole=True,
    ),
    failure(
        "pipeline-unsupported",
        r"(?:Pipeline parallelism is not supported for this model|Pipeline parallelism is only supported for "
        r"the following|Pipeline Parallel is not compatible with this model)",
        "The engine cannot split this model over a pipeline",
        "its code for this architecture has no stages",
        "a newer engine, which may have them, tensor parallelism instead, or llama.cpp",
        "vllm config/model.py, vllm#45455, vllm#16231; sglang 0.5.23 model_executor/model_runner.py",
        whole=True,
    ),
)
