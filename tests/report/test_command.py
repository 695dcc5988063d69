"""`bubblescope report` from end to end, on recordings written as the torch profiler writes them."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bubblescope.cli import main
from tests.pipelines.engine import Engine, prefill
from tests.pipelines.execution import play
from tests.pipelines.recording import write_kineto

US = 1000
SAMPLES = Path(__file__).parents[2] / "sample_traces"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two ranks, four chunks: stage 0 computes 300 us a chunk, stage 1 100 us, and waits."""
    made = tmp_path_factory.mktemp("profiles")
    steps = prefill([300 * US] * 4, [100 * US] * 4)
    write_kineto(play(Engine(link=5 * US).program(steps)), made, [0, 7_889_238 * 10**9])
    return made


class Seen:
    """What one run of the command printed, and its exit status."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> None:
        self.status = main(["report", *map(str, arguments)])
        self.out, self.err = capsys.readouterr()


def test_shows_the_page(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seen = Seen(capsys, folder)
    assert seen.status == 0
    assert seen.err == ""
    assert folder.name in seen.out
    assert "Stage 1 (NVIDIA H200) waits" in seen.out
    assert "for stage 0" in seen.out


def test_prints_one_json_object(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seen = Seen(capsys, folder, "--json")
    found = json.loads(seen.out)
    assert seen.status == 0
    assert found["pipeline"] is True
    assert [stage["states_ns"]["compute"] for stage in found["stages"]] == [1200 * US, 400 * US]
    window = found["window"]["end_ns"] - found["window"]["begin_ns"]
    assert all(sum(stage["states_ns"].values()) == window for stage in found["stages"])


def test_two_forms_at_once_are_wrong_usage(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seen = Seen(capsys, folder, "--json", "--markdown")
    assert (seen.status, seen.out) == (2, "")
    assert seen.err.count("\n") == 1 and "--json and --markdown" in seen.err


def test_prints_markdown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seen = Seen(capsys, folder, "--markdown")
    assert seen.status == 0
    assert seen.out.startswith("### Bubblescope")
    assert "|---|" in seen.out


def test_a_partition_is_taken_from_the_command_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(Seen(capsys, folder, "--json", "--partition", "27,9").out)
    assert [stage["layers"] for stage in found["stages"]] == [27, 9]
    assert found["layers_from"] == "flag"


def test_a_window_of_times_counts_from_the_begin_of_the_whole(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = json.loads(Seen(capsys, folder, "--json").out)["window"]
    part = json.loads(Seen(capsys, folder, "--json", "--window", "0.1ms:400us").out)
    assert part["window"] == {
        "begin_ns": whole["begin_ns"] + 100 * US,
        "end_ns": whole["begin_ns"] + 400 * US,
    }
    assert part["window_source"] == "flag"


def test_a_request_of_a_recording_without_requests_is_a_burst_and_that_is_said(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = json.loads(Seen(capsys, folder, "--json", "--window", "request:1").out)
    assert any(lost["what"] == "requests" and "burst 1" in lost["why"] for lost in found["lost"])


@pytest.mark.parametrize(
    ("option", "value", "why"),
    [
        ("--window", "request:9", "request:9 does not exist"),
        ("--window", "1s:0.5s", "empty"),
        ("--window", "5s:6s", "begins at 5.00 s"),
        ("--window", "tomorrow", "neither request:N nor BEGIN:END"),
        ("--partition", "27;9", "list of layers per stage"),
        ("--partition", "36,0", "list of layers per stage"),
        ("--partition", "12,12,12", "names 3 stages, but the recording shows 2"),
        ("--idle-gap", "10", "is not a time"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(
    folder: Path, capsys: pytest.CaptureFixture[str], option: str, value: str, why: str
) -> None:
    seen = Seen(capsys, folder, option, value)
    assert seen.status == 2
    assert seen.out == ""
    assert seen.err.startswith(f"bubblescope: {option}: ")
    assert why in seen.err
    assert seen.err.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "status"), [("<!DOCTYPE html><html>Not Found</html>", 3), ("[]", 3), (None, 2)]
)
def test_what_cannot_be_reported_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, status: int
) -> None:
    wrong = tmp_path / "trace.json"
    if content is not None:
        wrong.write_text(content)
    seen = Seen(capsys, wrong)
    assert seen.status == status
    assert seen.out == ""
    assert seen.err.startswith("bubblescope: ")
    assert seen.err.count("\n") == 1


def test_a_damaged_recording_is_reported_with_status_4_and_a_line_that_says_why(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for rank in folder.iterdir():
        whole = rank.read_bytes()
        kept = whole if "rank1" in rank.name else whole[: len(whole) - 300]
        (tmp_path / f"{rank.name}.gz").write_bytes(gzip.compress(kept))
    seen = Seen(capsys, tmp_path)
    assert seen.status == 4
    assert "Stage 1" in seen.out
    assert seen.err.startswith("bubblescope: damaged: ")
    assert seen.err.rstrip().endswith("; the rest is reported")
    assert seen.err.count("\n") == 1


def test_help_has_examples_and_explains_the_window(capsys: pytest.CaptureFixture[str]) -> None:
    seen = Seen(capsys, "--help")
    said = " ".join(seen.out.split())
    assert seen.status == 0
    assert "bubblescope report trace.json.gz" in said
    assert "from 1" in said
    assert "--window 1.2s:3.4s" in said


def _run(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")
    }
    return subprocess.run(
        [sys.executable, "-m", "bubblescope", "report", *map(str, arguments)],
        capture_output=True,
        env=kept | environment,
        check=False,
    )


def test_a_pipe_gets_neither_colour_nor_progress(folder: Path) -> None:
    done = _run(folder, COLUMNS="100")
    assert done.returncode == 0
    assert b"\x1b" not in done.stdout
    assert done.stderr == b""
    assert max(map(len, done.stdout.decode().splitlines())) <= 100


def test_a_width_of_nothing_is_not_believed(folder: Path) -> None:
    done = _run(folder, COLUMNS="0")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"Stage 1 (NVIDIA H200) waits" in done.stdout


def test_a_terminal_without_unicode_gets_ascii(folder: Path) -> None:
    done = _run(folder, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 0
    assert done.stdout.isascii()
    assert rb"\u" not in done.stdout


@pytest.mark.parametrize("form", [[], ["--markdown"], ["--json"]])
def test_a_reader_that_goes_away_is_no_error_of_the_report(folder: Path, form: list[str]) -> None:
    command = [sys.executable, "-m", "bubblescope", "report", str(folder), *form]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None and running.stderr is not None
        running.stdout.close()
        assert running.stderr.read() == b""
    assert running.returncode == 141


def test_wrong_options_are_told_before_anything_is_read(tmp_path: Path) -> None:
    done = _run(tmp_path / "nowhere.json", "--idle-gap", "soon")
    assert done.returncode == 2


@pytest.mark.parametrize(
    ("sample", "options"),
    [
        ("vllm_h200x2_27_9", []),
        # Its first request is mostly the profiler's start.
        ("sglang_h200x2_27_9", ["--window", "request:2"]),
        # Its second rank began to record 124 ms after the first.
        ("h200x2_uneven", ["--window", "124ms:211ms", "--partition", "30,10"]),
    ],
)
def test_real_uneven_splits_are_called_uneven(
    sample: str, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Of 36 or 40 layers stage 0 holds 27 or 30."""
    found = json.loads(Seen(capsys, SAMPLES / sample, "--json", *options).out)
    blame = max(found["blame"], key=lambda row: row["ns"])
    assert (blame["waiting_stage"], blame["culprit_stage"], blame["cause"]) == (1, 0, "compute")
    layers = [stage["layers"] for stage in found["stages"]]
    assert layers in ([27, 9], [30, 10])
    page = Seen(capsys, SAMPLES / sample, *options)
    assert page.status == 0
    assert re.search(
        rf"Stage 1 \(NVIDIA H200, {layers[1]} layers\) waits [0-9]+ % of the time for stage 0, "
        rf"which computes {layers[0]} layers: the split is uneven",
        re.sub(r"[│\s]+", " ", page.out),
    )
    assert Seen(capsys, SAMPLES / sample, "--markdown", *options).status == 0


def test_a_real_recording_of_cpus_is_not_judged(capsys: pytest.CaptureFixture[str]) -> None:
    seen = Seen(capsys, SAMPLES / "sglang_cpu")
    assert seen.status == 0
    assert "No device activity" in seen.out
