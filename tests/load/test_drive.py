"""Driving a real HTTP server, as `bubblescope record` does."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bubblescope.trace.read import read_trace
from tests.engines.serving import free_port
from tests.record.commands import BUBBLESCOPE, bubblescope, environment

SERVER = Path(__file__).with_name("small_server.py")
TTFT_MS = 50


def driven(
    folder: Path, *options: str, load: tuple[str, ...] = ("--prompt-tokens", "20")
) -> subprocess.CompletedProcess[str]:
    """Record the small server, driven by a load."""
    server = [sys.executable, SERVER, "--port", str(free_port()), *options]
    return bubblescope("record", "-o", "trace.json", *load, "--", *server, cwd=folder)


def asked(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """The requests that the server got."""
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def test_the_server_gets_the_warm_up_and_then_the_requests_and_is_ended(tmp_path: Path) -> None:
    done = driven(
        tmp_path, load=("--prompt-tokens", "20", "--requests", "2", "--warmup", "1", "--output-tokens", "3")
    )
    assert done.returncode == 0, done.stderr
    requests = asked(done)
    assert [request["name"] for request in requests] == [
        "bubblescope-warmup-1", "bubblescope-request-1", "bubblescope-request-2",
    ]  # fmt: skip
    assert {(r["model"], len(r["prompt"]), r["max_tokens"], r["ignore_eos"]) for r in requests} == {
        ("small", 20, 3, True)
    }


def test_the_trace_has_the_requests_as_the_client_saw_them_and_the_window(tmp_path: Path) -> None:
    done = driven(tmp_path, load=("--prompt-tokens", "20", "--requests", "2", "--output-tokens", "3"))
    trace = read_trace(tmp_path / "trace.json")
    requests = trace.requests
    assert requests["warmup"].tolist() == [True, False, False]
    assert requests[["prompt_tokens", "output_tokens"]].values.tolist() == 3 * [[20, 3]]
    measured = requests[~requests["warmup"]]
    assert trace.run.window_ns == (measured["arrival_ns"].min(), measured["end_ns"].max())
    ttft_ms = (requests["first_token_ns"] - requests["arrival_ns"]) / 1e6
    assert (ttft_ms >= TTFT_MS).all()
    told = re.findall(r"request \d: 20 tokens, first token after ([\d.]+) ms, \d+ tokens/s", done.stderr)
    assert [float(ms) for ms in told] == pytest.approx(ttft_ms[1:].tolist(), abs=0.06)


def test_an_sglang_without_a_tokenizer_is_driven_by_its_own_interface(tmp_path: Path) -> None:
    done = driven(
        tmp_path,
        "--without-tokenizer",
        load=("--prompt-tokens", "20", "--requests", "1", "--output-tokens", "3"),
    )
    assert done.returncode == 0, done.stderr
    assert [(request["name"], len(request["prompt"]), request["max_tokens"]) for request in asked(done)] == [
        ("bubblescope-warmup-1", 20, 3), ("bubblescope-request-1", 20, 3),
    ]  # fmt: skip
    requests = read_trace(tmp_path / "trace.json").requests
    assert requests[["prompt_tokens", "output_tokens"]].values.tolist() == 2 * [[20, 3]]


def test_requests_may_be_open_at_once(tmp_path: Path) -> None:
    driven(tmp_path, load=("--prompt-tokens", "20", "--requests", "4", "--concurrency", "4"))
    measured = read_trace(tmp_path / "trace.json").requests.query("not warmup")
    # All are sent before the first is answered.
    assert measured["arrival_ns"].max() < measured["end_ns"].min()


def test_it_waits_until_the_server_is_ready(tmp_path: Path) -> None:
    done = driven(tmp_path, "--ready-after", "1.5")
    assert done.returncode == 0, done.stderr
    assert "waiting until http://127.0.0.1:" in done.stderr
    assert len(asked(done)) == 4


def test_a_prefix_cache_that_falsifies_the_times_is_told(tmp_path: Path) -> None:
    done = driven(tmp_path, "--cached", "16")
    assert "48 prompt tokens came from the server's prefix cache, so the times are too short" in done.stderr


@pytest.mark.parametrize(
    ("options", "load", "why"),
    [
        (
            ("--ready-after", "60"),
            ("--ready-seconds", "1"),
            "; --ready-seconds gives it longer",
        ),
        (
            ("--refuse", "the prompt is\ntoo long"),
            (),
            "refused bubblescope-warmup-1: 400 the prompt is",
        ),
        (("--silent",), (), "answered bubblescope-warmup-1 without a token"),
    ],
)
def test_a_server_that_cannot_be_driven_is_ended_with_one_line_that_says_why(
    tmp_path: Path, options: tuple[str, ...], load: tuple[str, ...], why: str
) -> None:
    done = driven(tmp_path, *options, load=("--prompt-tokens", "20", *load))
    assert done.returncode == 125
    assert len([line for line in done.stderr.splitlines() if why in line]) == 1, done.stderr
    assert "Traceback" not in done.stderr


def test_a_command_that_ends_while_it_is_waited_for_ends_the_recording(tmp_path: Path) -> None:
    load = ("--prompt-tokens", "20", "--url", "http://127.0.0.1:1")
    done = bubblescope("record", "-o", "t.json", *load, "--", "sh", "-c", "sleep 0.5; exit 7", cwd=tmp_path)
    assert done.returncode == 7
    assert "Traceback" not in done.stderr
    why = "the command ended when none of 3 requests at http://127.0.0.1:1 had been answered"
    assert why in done.stderr


@pytest.mark.parametrize(
    ("option", "status"), [(("--dies", "9"), 137), (("--dies", "15"), 143), (("--breaks-off", "3"), 3)]
)
def test_a_server_that_ends_while_it_is_driven_has_its_own_status(
    tmp_path: Path, option: tuple[str, str], status: int
) -> None:
    """It is not asked to end while it does, nor is what it was sent taken for an interrupt of ours."""
    done = driven(tmp_path, *option, load=("--prompt-tokens", "20"))
    assert done.returncode == status, done.stderr
    said = ("broke off bubblescope-warmup-1", "none of 3 requests")  # whichever was seen first
    assert any(words in done.stderr for words in said) and "interrupted" not in done.stderr


def test_a_port_in_use_is_told_before_anything_is_started(tmp_path: Path) -> None:
    port = str(free_port())
    with subprocess.Popen([sys.executable, SERVER, "--port", port]) as other:
        try:
            command = ["sh", "-c", "touch started", "--", "--port", port]
            done = bubblescope("record", "--prompt-tokens", "20", "--", *command, cwd=tmp_path)
            while other.poll() is None and "already" not in done.stderr:  # it had not listened yet
                done = bubblescope("record", "--prompt-tokens", "20", "--", *command, cwd=tmp_path)
        finally:
            other.terminate()
    assert (done.returncode, (tmp_path / "started").exists()) == (125, False)
    assert f"something answers at http://127.0.0.1:{port} already; choose another --port" in done.stderr


@pytest.mark.parametrize("url", ["nonsense", "http://[", "ftp://127.0.0.1:1"])
def test_an_address_that_is_none_is_refused(tmp_path: Path, url: str) -> None:
    done = bubblescope("record", "--prompt-tokens", "20", "--url", url, "--", "true", cwd=tmp_path)
    assert done.returncode == 125
    assert len(done.stderr.splitlines()) == 1 and "Traceback" not in done.stderr, done.stderr


def test_a_server_that_waits_for_its_clients_ends_on_ctrl_c_all_the_same(tmp_path: Path) -> None:
    """The launcher gives its open requests up, so that the two do not wait for each other."""
    server = [sys.executable, SERVER, "--port", str(free_port()), "--never"]
    command = [*BUBBLESCOPE, "record", "-o", "t.json", "--prompt-tokens", "20", "--", *map(str, server)]
    with subprocess.Popen(command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE) as recorder:
        assert recorder.stdout is not None and b"bubblescope-warmup-1" in recorder.stdout.readline()
        recorder.send_signal(signal.SIGINT)
        assert recorder.wait(30) == 0
