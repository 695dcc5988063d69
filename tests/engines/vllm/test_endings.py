"""However a recorded vLLM ends: a trace or one clear line, its own exit status, nothing left running."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.engines.driven import Driven
from tests.engines.left_running import nothing_is_left_running
from tests.engines.serving import Recorded
from tests.engines.vllm.serving import command, environment, installed, prepare, record

pytestmark = installed


def nothing_was_recorded(recording: Recorded) -> bool:
    return not recording.file.exists() and any(
        line.startswith("nothing was recorded: no process") for line in recording.said()
    )


def driven(folder: Path) -> Driven:
    prepare(folder)
    return Driven(folder, command(folder), environment(folder))


def test_ctrl_c_in_the_middle_leaves_a_trace(tmp_path: Path) -> None:
    serving = driven(tmp_path)
    serving.wait_until_measuring()
    serving.recorder.send_signal(signal.SIGINT)
    recording = serving.ended()
    assert recording.status == 0, recording.output
    spans = recording.trace.spans
    assert set(spans.loc[spans["kind"] == "forward", "stage"]) == {0, 1}
    assert nothing_is_left_running(tmp_path)


def test_a_stage_killed_in_the_middle_leaves_a_trace_of_all_before(tmp_path: Path) -> None:
    serving = driven(tmp_path)
    serving.wait_until_measuring()
    os.kill(serving.processes("VLLM::Worker")[1], signal.SIGKILL)
    recording = serving.ended()
    assert recording.status != 0
    spans = recording.trace.spans
    # A warm-up and a request, eight chunks each, and whatever came of the next.
    assert (spans.loc[spans["kind"] == "forward", "stage"].value_counts() >= 16).all()
    assert nothing_is_left_running(tmp_path)


@pytest.mark.parametrize(
    ("partition", "options", "why"),
    [
        (
            "5,2",
            (),
            "The engine refused the layer partition: it sums to 7 layers, and the model has 8. What to do: "
            "numbers that sum to 8 in VLLM_PP_LAYER_PARTITION or SGLANG_PP_LAYER_PARTITION.",
        ),
        (
            "4,4",
            ("--max-model-len", "999999"),
            "vLLM refused the context length: 999999 tokens are asked for, and the model's config allows "
            "16384.",
        ),
    ],
)
def test_a_server_that_cannot_start_ends_with_its_own_status_and_words_and_it_is_said_why(
    tmp_path: Path, partition: str, options: tuple[str, ...], why: str
) -> None:
    prepare(tmp_path)
    server = command(tmp_path, "--enforce-eager", *options)
    recording = record(tmp_path, ["--prompt-tokens", "100"], server, VLLM_PP_LAYER_PARTITION=partition)
    assert recording.status == 1
    assert nothing_was_recorded(recording)
    assert recording.said()[-1].startswith(why)
    assert not any("Traceback" in line for line in recording.said())
    assert nothing_is_left_running(tmp_path)


@pytest.mark.parametrize(
    ("missing", "named"), [("model", "{}/model"), ("model/config.json", "the command ended with status 1")]
)
def test_a_model_that_is_not_there_is_vllm_s_to_tell(tmp_path: Path, missing: str, named: str) -> None:
    prepare(tmp_path)
    (tmp_path / missing).rename(tmp_path / "elsewhere")
    recording = record(tmp_path, ["--prompt-tokens", "100"], command(tmp_path))
    assert recording.status == 1
    assert nothing_was_recorded(recording)
    assert named.format(tmp_path) in recording.said()[-1]
    assert nothing_is_left_running(tmp_path)


def test_a_server_that_is_not_ready_in_time_is_ended_with_one_line(tmp_path: Path) -> None:
    prepare(tmp_path)
    server = command(tmp_path)
    recording = record(tmp_path, ["--prompt-tokens", "100", "--ready-seconds", "2"], server)
    assert recording.status != 0
    address = f"http://127.0.0.1:{server[server.index('--port') + 1]}"
    assert f"{address} was not ready within 2 s; --ready-seconds gives it longer" in recording.said()
    assert not any("Traceback" in line for line in recording.said())
    assert nothing_is_left_running(tmp_path)


def test_a_vllm_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    recording = record(tmp_path, ["--prompt-tokens", "100"], [str(tmp_path / "vllm"), "serve", "model"])
    assert recording.status == 127
    assert recording.said()[-1] == f"{tmp_path / 'vllm'}: command not found"
