"""However a recorded SGLang ends: a trace or one clear line, its own exit status, nothing left running."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.engines.driven import Driven
from tests.engines.left_running import nothing_is_left_running
from tests.engines.sglang.serving import command, environment, installed, prepare, record

pytestmark = installed


def driven(folder: Path) -> Driven:
    prepare(folder)
    return Driven(folder, command(folder), environment(folder))


def test_ctrl_c_in_the_middle_leaves_a_trace(tmp_path: Path) -> None:
    serving = driven(tmp_path)
    serving.wait_until_measuring()
    serving.recorder.send_signal(signal.SIGINT)
    recording = serving.ended()
    assert recording.status == 128 + signal.SIGINT, recording.output  # SGLang's own
    spans = recording.trace.spans
    assert set(spans.loc[spans["kind"] == "forward", "stage"]) == {0, 1}
    assert nothing_is_left_running(tmp_path)


def test_a_stage_killed_in_the_middle_leaves_a_trace_of_all_before(tmp_path: Path) -> None:
    serving = driven(tmp_path)
    serving.wait_until_measuring()
    os.kill(serving.processes("sglang::scheduler")[1], signal.SIGKILL)
    recording = serving.ended()
    assert recording.status != 0
    spans = recording.trace.spans
    # A warm-up and a request, eight chunks each, and whatever came of the next.
    assert (spans.loc[spans["kind"] == "forward", "stage"].value_counts() >= 16).all()
    assert nothing_is_left_running(tmp_path)


def test_a_server_that_cannot_start_ends_with_its_own_status_and_words(tmp_path: Path) -> None:
    prepare(tmp_path)
    server = command(tmp_path)
    recording = record(tmp_path, ["--prompt-tokens", "100"], server, SGLANG_PP_LAYER_PARTITION="5,2")
    assert recording.status != 0
    assert any(line.startswith("nothing was recorded: no process") for line in recording.said())
    assert not recording.file.exists()
    assert not any("Traceback" in line for line in recording.said())
    assert nothing_is_left_running(tmp_path)
