"""Crashes: the engines' own words, as they raise them and as people reported them."""

from __future__ import annotations

import pytest

from bubblescope.doctor.explanation import LONGEST_OUTPUT, explain, last_error
from bubblescope.doctor.failures import FAILURES
from bubblescope.trace.model import Device

ADA = "NVIDIA GeForce RTX 4090"
RIG = (
    Device(stage=0, name="NVIDIA GeForce RTX 5090", capability="12.0"),
    Device(stage=1, name=ADA, capability="8.9"),
    Device(stage=2, name=ADA, capability="8.9"),
)

#: What the engines raise, in the shapes of their logs. By failure; those with a report name it.
RAISED = [
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
]


@pytest.mark.parametrize(("failure", "log"), RAISED)
def test_what_an_engine_raises_is_known_again(failure: str, log: str) -> None:
    # GIVEN the words among others, coloured as on a terminal / WHEN explained / THEN it is that failure
    output = f"INFO 05-02 starting\n\x1b[31m{log}\x1b[0m\nRuntimeError: Engine core initialization failed.\n"
    explanation = explain(output, RIG)
    assert explanation is not None
    assert explanation.id == failure
    assert "What to do: " in explanation.text
    assert "\n" not in explanation.text
    assert "\x1b" not in explanation.line


def test_every_known_failure_is_tested() -> None:
    assert {failure.id for failure in FAILURES} == {failure for failure, _ in RAISED}
    assert all(failure.source for failure in FAILURES)


def test_the_paragraph_names_what_where_why_and_the_way_out() -> None:
    explanation = explain(RAISED[0][1], RIG)
    assert explanation is not None
    assert explanation.devices == (1, 2)
    assert explanation.text == (
        "The engine refused the checkpoint's quantization modelopt_fp4 on GPU 1, 2 (NVIDIA GeForce "
        "RTX 4090): this version computes it from compute capability 10.0 on, and that GPU has 8.9. What to "
        "do: "
        "upgrade the engine (SGLang 0.5.13 and vLLM 0.16 emulate NVFP4), leave that GPU out, or take "
        "another format."
    )
    assert explanation.line.startswith("The quantization method modelopt_fp4 is not supported")


@pytest.mark.parametrize(
    "prefix",
    ["(Worker_PP1_TP0 pid=77) ERROR 05-02 10:11:12 [core.py:718] ", "[2026-05-02 10:11:12 PP1 TP0] "],
)
def test_the_stage_in_the_lines_prefix_tells_the_device(prefix: str) -> None:
    log = (
        f"(Worker_PP0_TP0 pid=76) INFO ready\n{prefix}torch.OutOfMemoryError: CUDA out of memory. Tried to\n"
    )
    explanation = explain(log, RIG)
    assert explanation is not None
    assert explanation.devices == (1,)
    assert explanation.text.startswith(f"A GPU ran out of memory on GPU 1 ({ADA}): ")


def test_a_stage_without_a_known_device_is_named_as_a_stage() -> None:
    explanation = explain("(VLLM::Worker_PP1) torch.OutOfMemoryError: CUDA out of memory. Tried to", ())
    assert explanation is not None
    assert explanation.devices == ()
    assert explanation.text.startswith("A GPU ran out of memory on stage 1: ")


def test_a_device_that_is_not_told_is_not_made_up() -> None:
    for log in ("RuntimeError: MXFP4 Marlin requires SM90+.", RAISED[0][1]):
        explanation = explain(log, ())
        assert explanation is not None
        assert explanation.devices == ()
        assert "GPU 0" not in explanation.text


def test_the_cause_counts_before_what_follows_from_it() -> None:
    log = f"CUDA out of memory\n{RAISED[0][1]}\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate"
    explanation = explain(log, RIG)
    assert explanation is not None
    assert explanation.id == "quantization-capability"


@pytest.mark.parametrize(
    "log",
    [
        "",
        "INFO 05-02 10:11:12 [api_server.py:233] vLLM API server version 0.33.0",
        # Warnings of engines that emulate and go on.
        "Your GPU does not have native support for FP4 computation but FP4 quantization is being used. "
        "Weight-only FP4 compression will be used leveraging the Marlin kernel. This may degrade "
        "performance for compute-heavy workloads.",
        "NVFP4 w4a4 requires compute capability >= 10.0; serving this checkpoint weight-only via FP4 Marlin "
        "instead. Activation quantization is ignored.",
        "OSError: [Errno 98] Address already in use",
        "ModuleNotFoundError: No module named 'vllm'",
        "IndexError: list index out of range",
        "Killed process 4242 (python) total-vm:1234kB: Out of memory",
        "torch.distributed.DistNetworkError: The client socket has timed out after 600000ms",
        "KeyboardInterrupt",
        "main: server is listening on http://127.0.0.1:8080",
        "404 Client Error: Not Found for url: https://example.org/quantization",
    ],
)
def test_logs_of_something_else_are_not_classified(log: str) -> None:
    assert explain(log, RIG) is None


def test_an_unknown_failure_gives_the_engines_own_last_error() -> None:
    log = (
        "ValueError: an earlier one\n"
        "(EngineCore pid=3) ERROR 05-02 [core.py:9] zmq.error.ZMQError: Address already in use\n"
        "INFO shutting down\n"
    )
    assert last_error(log) == "zmq.error.ZMQError: Address already in use"
    assert last_error("llama_model_load: error loading model: unknown type\n") == (
        "llama_model_load: error loading model: unknown type"
    )
    assert last_error("INFO all is well") is None


@pytest.mark.parametrize(
    "follows",
    [
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
        "Exception: WorkerProc initialization failed due to an exception in a background process. "
        "See stack trace for root cause.",
        "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.",
        "ERROR Worker proc VllmWorker-1 died unexpectedly (exit code: 1), shutting down executor.",
        "ERROR: Received sigquit from a child process. It usually means the child failed.",
    ],
)
def test_what_follows_from_another_process_is_not_the_last_error(follows: str) -> None:
    assert last_error(f"ValueError: the cause\n{follows}\n") == "ValueError: the cause"
    # unless there is nothing else
    assert last_error(f"{follows}\n") is not None


@pytest.mark.parametrize("piece", ["a ", "x.", "Error: ", "get_value_buffer\n", "[PP1] ", "\x1b["])
def test_a_long_or_hostile_output_is_read_to_its_end_only(piece: str) -> None:
    """The end is what is looked at; a pattern that took more than linear time would never return."""
    flood = piece * (4 * LONGEST_OUTPUT // len(piece))
    assert explain(f"RuntimeError: MXFP4 Marlin requires SM90+.\n{flood}", RIG) is None
    explanation = explain(f"{flood}\nRuntimeError: MXFP4 Marlin requires SM90+.\n", RIG)
    assert explanation is not None
    assert explanation.id == "mxfp4-marlin"
    last_error(flood)
