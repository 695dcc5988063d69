"""Crashes: the engines' own words, as they raise them and as people reported them."""

from __future__ import annotations

import pytest

from bubblescope.doctor.explanation import LONGEST_OUTPUT, explain, last_error
from bubblescope.doctor.failures import FAILURES
from bubblescope.trace.model import Device
from tests.doctor.crashes import RAISED

ADA = "NVIDIA GeForce RTX 4090"
RIG = (
    Device(stage=0, name="NVIDIA GeForce RTX 5090", capability="12.0"),
    Device(stage=1, name=ADA, capability="8.9"),
    Device(stage=2, name=ADA, capability="8.9"),
)


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


def test_the_device_that_a_message_numbers_is_named() -> None:
    torch = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity "
        "of 23.53 GiB of which 512.44 MiB is free. Including non-PyTorch memory"
    )
    text = (
        "2.00 GiB were asked for, and 512.44 MiB of 23.53 GiB were free: weights, KV cache, activations do "
        "not fit. What to do: fewer layers for that stage, smaller chunks, or a shorter context."
    )
    explanation = explain(torch, RIG)
    assert explanation is not None
    assert (explanation.devices, explanation.text) == ((1,), f"Memory ran out on GPU 1 ({ADA}): {text}")
    # By its number on the host where that is known, and by the number alone where the card is not.
    explanation = explain(torch, (Device(ordinal=1, name="A"), Device(ordinal=0, name="B")))
    assert explanation is not None
    assert explanation.text.startswith("Memory ran out on GPU 0 (A): ")
    explanation = explain(torch, ())
    assert explanation is not None
    assert explanation.text == f"Memory ran out on GPU 1: {text}"


def test_what_the_command_as_a_whole_gets_wrong_is_no_devices_fault() -> None:
    log = "(Worker_PP1 pid=9) ERROR ValueError: sum(partitions)=37 does not match num_hidden_layers=36."
    explanation = explain(log, RIG)
    assert explanation is not None
    assert explanation.devices == ()
    assert explanation.text.startswith("The engine refused the layer partition: it sums to 37 layers")


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
        "Port 30001 is already in use, trying port 30002",
        "WARNING NCCL_DEBUG is set; NCCL version 2.27.5",
        "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer",
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
