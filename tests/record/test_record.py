"""`bubblescope record` as a person and a shell meet it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bubblescope.trace.model import Lost
from bubblescope.trace.read import read_trace
from tests.record.commands import BUBBLESCOPE, SHORT, begun, bubblescope, environment, microbatches, python


def said(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What bubblescope itself says."""
    return [line for line in done.stderr.splitlines() if line.startswith("bubblescope: ")]


def test_a_recording_becomes_a_trace_with_facts(tmp_path: Path) -> None:
    done = bubblescope("record", "-o", "t.json.gz", "--", *python(SHORT), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "done\n")
    size = (tmp_path / "t.json.gz").stat().st_size / 1e3
    assert said(done) == [
        "bubblescope: recording into t.json.gz",
        f"bubblescope: 3 spans, 1 stage, 0 requests in t.json.gz, {size:.1f} kB",
    ]
    trace = read_trace(tmp_path / "t.json.gz")
    assert microbatches(trace) == [0, 1, 2]
    assert trace.run.command[:2] == (sys.executable, "-c")
    assert trace.run.facts["exit_status"] == 0
    assert trace.run.partition == (4,)
    # THEN nothing else is left behind
    assert [path.name for path in tmp_path.iterdir()] == ["t.json.gz"]


def test_without_a_name_it_is_dated_and_nothing_is_overwritten(tmp_path: Path) -> None:
    for _ in range(2):
        assert bubblescope("record", "--", *python(SHORT), cwd=tmp_path).returncode == 0
    names = sorted(path.name for path in tmp_path.iterdir())
    assert len(names) == 2
    assert all(re.fullmatch(r"bubblescope-\d{8}-\d{6}(-\d)?\.json\.gz", name) for name in names)


@pytest.mark.parametrize("rate", ["nan", "1e-300", "-1", "101", "often"])
def test_a_rate_at_which_nothing_can_be_sampled_is_refused(rate: str, tmp_path: Path) -> None:
    refused = bubblescope("record", "--nvml-hz", rate, "--", "touch", "ran", cwd=tmp_path)
    assert refused.returncode == 125
    assert "Invalid value for '--nvml-hz'" in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_stays_unless_it_is_said_otherwise(tmp_path: Path) -> None:
    trace = tmp_path / "t.json"
    trace.write_text("precious")
    refused = bubblescope("record", "-o", "t.json", "--", "touch", "ran", cwd=tmp_path)
    assert (refused.returncode, trace.read_text()) == (125, "precious")
    assert said(refused) == ["bubblescope: t.json exists; --force overwrites it, --append adds to it"]
    assert not (tmp_path / "ran").exists()
    assert (
        bubblescope("record", "-o", "t.json", "--force", "--", *python(SHORT), cwd=tmp_path).returncode == 0
    )
    assert microbatches(trace) == [0, 1, 2]


def test_appending_adds_a_run_with_microbatches_of_its_own_to_what_is_there(tmp_path: Path) -> None:
    for _ in range(2):
        done = bubblescope("record", "-o", "t.json.gz", "--append", "--", *python(SHORT), cwd=tmp_path)
        assert done.returncode == 0
    trace = read_trace(tmp_path / "t.json.gz")
    assert microbatches(trace) == [0, 1, 2, 3, 4, 5]
    assert trace.spans["begin_ns"].is_monotonic_increasing
    assert len(trace.run.devices) == 1
    assert trace.run.clock.aligned


def test_what_an_earlier_run_lacks_is_not_said_of_the_one_that_is_added(tmp_path: Path) -> None:
    for asked, lines in (("--kernels", 1), ("--append", 0)):
        done = bubblescope("record", asked, "-o", "t.json", "--", *python(SHORT), cwd=tmp_path)
        assert sum("--kernels" in line for line in said(done)) == lines
    # THEN the trace of both still tells it
    assert "kernels" in {lost.what for lost in read_trace(tmp_path / "t.json").run.lost}


def test_appending_to_what_has_another_clock_is_refused_before_the_command_runs(tmp_path: Path) -> None:
    trace = tmp_path / "t.json"
    bubblescope("record", "-o", "t.json", "--", *python(SHORT), cwd=tmp_path)
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    foreign = trace.read_text().replace(boot, "11111111-2222-3333-4444-555555555555")
    trace.write_text(foreign)
    refused = bubblescope("record", "-o", "t.json", "--append", "--", "touch", "ran", cwd=tmp_path)
    assert (refused.returncode, trace.read_text()) == (125, foreign)
    assert len(said(refused)) == 1 and "not be comparable" in said(refused)[0]
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("status", "code"),
    [(0, "pass"), (7, "sys.exit(7)"), (255, "sys.exit(-1)"), (137, "os.kill(os.getpid(), 9)"),
     (139, "os.kill(os.getpid(), signal.SIGSEGV)"), (162, "os.kill(os.getpid(), 34)")],
)  # fmt: skip
def test_the_exit_status_is_the_commands(status: int, code: str, tmp_path: Path) -> None:
    done = bubblescope("record", "-o", "t.json", "--", *python(SHORT + code), cwd=tmp_path)
    assert done.returncode == status
    # THEN the trace is whole in any case
    trace = read_trace(tmp_path / "t.json")
    assert microbatches(trace) == [0, 1, 2]
    assert trace.run.facts["exit_status"] == status


def test_a_command_without_cuda_has_no_kernels_and_that_is_said(tmp_path: Path) -> None:
    unloaded = "no process loaded the library that records them: none used CUDA, or another profiler did"
    done = bubblescope("record", "--kernels", "-o", "t.json", "--", *python(SHORT), cwd=tmp_path)
    assert said(done)[1] == f"bubblescope: --kernels: {unloaded}"
    assert Lost("kernels", unloaded) in read_trace(tmp_path / "t.json").run.lost
    # AND where nothing else was recorded either
    done = bubblescope("record", "--kernels", "-o", "none.json", "--", "true", cwd=tmp_path)
    assert said(done)[1].endswith(f"or none did any work; --kernels: {unloaded}")
    # AND not a second time where it was said at once that there would be none
    done = subprocess.run(
        [*BUBBLESCOPE, "record", "--kernels", "-o", "other.json", "--", *python(SHORT)],
        cwd=tmp_path, env={**environment(), "CUDA_INJECTION64_PATH": "/tool.so"}, capture_output=True,
        text=True,
    )  # fmt: skip
    assert [line for line in said(done) if "--kernels" in line] == said(done)[:1]


def test_output_and_input_are_the_commands_byte_for_byte(tmp_path: Path) -> None:
    # GIVEN a command that answers its input with odd bytes on both streams, much and without an end
    code = (
        "import sys; data = sys.stdin.buffer.read(); "
        "sys.stdout.buffer.write(data * 3 + bytes(range(256)) * 1000); sys.stdout.flush(); "
        "sys.stderr.buffer.write(b'\\xff\\x00 no newline'); sys.stderr.flush(); sys.exit(3)"
    )
    command = [sys.executable, "-c", code]
    alone, recorded = (
        subprocess.run(
            [*before, *command], input=b"in\r\n\x00", cwd=tmp_path, env=environment(), capture_output=True
        )
        for before in ([], [*BUBBLESCOPE, "record", "-o", "t.json", "--"])
    )
    assert recorded.returncode == alone.returncode == 3
    assert recorded.stdout == alone.stdout
    # THEN stderr has our own lines besides, whole ones
    begin, end = b"bubblescope: recording into t.json\n", b"bubblescope: nothing was recorded: "
    assert recorded.stderr.startswith(begin + alone.stderr + end)


def test_signal_dispositions_and_descriptors_reach_the_command_as_they_were(tmp_path: Path) -> None:
    command = ["sh", "-c", "grep -E '^Sig(Blk|Ign)' /proc/self/status; ls /proc/self/fd | wc -l"]

    def told(done: subprocess.CompletedProcess[str]) -> tuple[int, int, int]:
        blocked, ignored, descriptors = (line.split()[-1] for line in done.stdout.splitlines())
        of_the_c_library = 3 << 31  # signals 32 and 33, which nobody else can use
        return int(blocked, 16), int(ignored, 16) & ~of_the_c_library, int(descriptors)

    alone = subprocess.run(command, capture_output=True, text=True)
    assert told(bubblescope("record", "-o", "t.json", "--", *command, cwd=tmp_path)) == told(alone)


def test_whoever_ignores_the_end_of_children_gets_the_exit_status_all_the_same(tmp_path: Path) -> None:
    ignoring = (
        "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); "
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    command = [*BUBBLESCOPE, "record", "-o", "t.json", "--", "sh", "-c", "exit 3"]
    done = subprocess.run(
        [sys.executable, "-c", ignoring, *command], cwd=tmp_path, env=environment(), capture_output=True
    )
    assert done.returncode == 3


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["-o", "missing/t.json"], "cannot record into missing: No such file or directory"),
        (["-o", "/proc/t.json"], "cannot record into /proc: "),
        (["-o", "."], ". is a folder; -o names the file to write"),
        (["-o", "x" * 300], "File name too long"),
        (["--append", "--force", "-o", "t"], "give one of them"),
        (["--append", "-o", "/dev/null"], "/dev/null"),
        (["--max-size", "many"], "'many' is no size of at least 1MB"),
        (["--max-size", "10KB"], "'10KB' is no size of at least 1MB"),
        (["--keep-seconds", "0"], "0 is not in the range"),
        (["--no-such-option"], "No such option"),
    ],
)
def test_failures_of_our_own_are_125_and_one_line(options: list[str], reason: str, tmp_path: Path) -> None:
    done = bubblescope("record", *options, "--", "touch", "ran", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (125, "")
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("bubblescope: ") and reason in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_missing_command_is_125_too(tmp_path: Path) -> None:
    done = bubblescope("record", cwd=tmp_path)
    assert (done.returncode, len(done.stderr.splitlines())) == (125, 1)


def test_a_folder_left_from_an_interrupted_recording_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "t.json.spool").mkdir()
    done = bubblescope("record", "-o", "t.json", "--", "touch", "ran", cwd=tmp_path)
    assert done.returncode == 125
    assert "`bubblescope merge t.json.spool`" in done.stderr and len(done.stderr.splitlines()) == 1
    assert (tmp_path / "t.json.spool").is_dir() and not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("command", "status", "reason"),
    [
        ("no-such-command", 127, "no-such-command: command not found"),
        ("./no-such-file", 127, "./no-such-file: command not found"),
        ("./plain-file", 126, "./plain-file: Permission denied"),
        (".", 126, ".: Permission denied"),
    ],
)
def test_a_command_that_cannot_run_is_126_or_127_as_env_has_it(
    command: str, status: int, reason: str, tmp_path: Path
) -> None:
    (tmp_path / "plain-file").write_text("")
    assert subprocess.run(["env", command], cwd=tmp_path, capture_output=True).returncode == status
    done = bubblescope("record", "-o", "t.json", "--", command, cwd=tmp_path)
    assert (done.returncode, said(done)[-1]) == (status, f"bubblescope: {reason}")
    assert [path.name for path in tmp_path.iterdir()] == ["plain-file"]


def test_a_script_without_a_first_line_runs_as_shells_run_it(tmp_path: Path) -> None:
    script = tmp_path / "start"
    script.write_text("echo from a script: $1\nexit 4\n")
    script.chmod(0o755)
    done = bubblescope("record", "-o", "t.json", "--", "./start", "x", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (4, "from a script: x\n")


@pytest.mark.parametrize("command", [["true"], ["sh", "-c", "exit 0"]])
def test_a_command_that_ends_at_once_and_records_nothing(command: list[str], tmp_path: Path) -> None:
    done = bubblescope("record", "-o", "t.json", "--", *command, cwd=tmp_path)
    assert done.returncode == 0
    assert len(said(done)) == 2
    assert "nothing was recorded: no process of the command has a collector in it" in said(done)[1]
    assert list(tmp_path.iterdir()) == []


def test_a_command_that_forks_is_recorded_in_all_its_processes(tmp_path: Path) -> None:
    code = """
        stage = recorder.stage(0, rank=0)
        for number in range(3):
            if os.fork() == 0:
                with stage.span("forward", microbatch=number):
                    pass
                os._exit(0)
        for _ in range(3):
            os.wait()
        """
    assert bubblescope("record", "-o", "t.json", "--", *python(code), cwd=tmp_path).returncode == 0
    assert microbatches(tmp_path / "t.json") == [0, 1, 2]


def test_what_outlives_the_command_for_a_moment_is_recorded_and_longer_is_said(tmp_path: Path) -> None:
    # GIVEN children that work on for a moment, or for long, when the command has ended
    code = """
        stage = recorder.stage(0, rank=0)
        for number, seconds in enumerate((0.3, 60)):
            child = os.fork()
            if child == 0:
                os.closerange(0, 3)
                stage.span("forward", microbatch=number).begin().end()
                time.sleep(seconds)
                stage.span("forward", microbatch=number + 10).begin().end()
                os._exit(0)
        print(child)
        """
    done = bubblescope("record", "-o", "t.json", "--", *python(code), cwd=tmp_path)
    os.kill(int(done.stdout), signal.SIGKILL)
    assert done.returncode == 0
    trace = read_trace(tmp_path / "t.json")
    assert microbatches(trace) == [0, 1, 10]
    assert [(lost.what, lost.count) for lost in trace.run.lost] == [("processes, their later events", 1)]


def test_output_to_a_reader_that_goes_away(tmp_path: Path) -> None:
    # GIVEN a command that prints more than a pipe holds
    code = SHORT + "for line in range(100_000): print(line)"
    engine = [*BUBBLESCOPE, "record", "-o", "t.json", "--", *python(code)]
    process = subprocess.Popen(
        engine, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    head = subprocess.run(["head", "-1"], stdin=process.stdout, capture_output=True, text=True)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    errors = process.stderr.read()
    # THEN it fails as it would without us, and what it did is recorded
    assert head.stdout == "done\n"
    assert process.wait(60) == 120 or "BrokenPipeError" in errors
    assert microbatches(tmp_path / "t.json") == [0, 1, 2]
    process.stderr.close()


def test_our_own_messages_may_find_nobody(tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [*BUBBLESCOPE, "record", "-o", "t.json", "--", *python(SHORT)],
        cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=write_end, text=True, timeout=60,
    )  # fmt: skip
    os.close(write_end)
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert microbatches(tmp_path / "t.json") == [0, 1, 2]


def test_secrets_reach_neither_the_trace_nor_the_spool(tmp_path: Path) -> None:
    secrets = ["hunter2hunter2", "hf_abcdefghij0123456789", "s3cr3tpass"]
    code = SHORT + """time.sleep(3); os.system("cat t.json.spool/*.spool > spool-copy")"""
    done = subprocess.run(
        [*BUBBLESCOPE, "record", "-o", "t.json", "--", *python(code), "--api-key", secrets[0],
         f"--hub-token={secrets[1]}", f"http://user:{secrets[2]}@server/"],
        cwd=tmp_path, env={**environment(), "HF_TOKEN": secrets[1], "MY_PASSWORD": secrets[0]},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0
    for name in ("t.json", "spool-copy"):
        content = (tmp_path / name).read_bytes()
        assert [secret for secret in secrets if secret.encode() in content] == []
    assert "--api-key" in read_trace(tmp_path / "t.json").run.command


def test_the_spool_folder_is_for_its_owner_only_while_the_command_runs(tmp_path: Path) -> None:
    done = bubblescope("record", "-o", "t.json", "--", "sh", "-c", "stat -c %a t.json.spool", cwd=tmp_path)
    assert done.stdout == "700\n"


def test_a_bounded_recording_of_a_long_run_stays_bounded_and_becomes_a_trace(tmp_path: Path) -> None:
    # GIVEN 100,000 spans, which are 6.4 MB
    code = """
        stage = recorder.stage(0, rank=0)
        most = 0
        for microbatch in range(100_000):
            with stage.span("forward", microbatch=microbatch):
                pass
            if microbatch % 1000 == 0:
                most = max(most, sum(entry.stat().st_size for entry in os.scandir("t.json.gz.spool")))
        print(most)
        """
    done = bubblescope("record", "-o", "t.json.gz", "--max-size", "5MB", "--", *python(code), cwd=tmp_path)
    assert done.returncode == 0
    assert 4_000_000 < int(done.stdout) <= 5_000_000
    trace = read_trace(tmp_path / "t.json.gz")
    kept = microbatches(trace)
    assert kept == list(range(100_000 - len(kept), 100_000))
    assert 60_000 < len(kept) < 78_125
    (lost,) = [lost for lost in trace.run.lost if lost.what == "events"]
    assert lost.count is not None and lost.count >= 100_000 - len(kept) - 1
    assert "within its bounds" in lost.why


def test_only_the_last_seconds_are_kept_if_so_asked(tmp_path: Path) -> None:
    code = """
        stage = recorder.stage(0, rank=0)
        stage.span("forward", microbatch=0).begin().end()
        time.sleep(1.2)
        stage.span("forward", microbatch=1).begin().end()
        """
    done = bubblescope("record", "-o", "t.json", "--keep-seconds", "1", "--", *python(code), cwd=tmp_path)
    assert done.returncode == 0
    trace = read_trace(tmp_path / "t.json")
    assert microbatches(trace) == [1]
    assert [lost.count for lost in trace.run.lost] == [1]


def test_recording_says_so_while_the_command_runs(tmp_path: Path) -> None:
    process = begun("record", "-o", "t.json", "--", "sh", "-c", "echo ready; exec sleep 60", cwd=tmp_path)
    assert process.stderr is not None and process.stdout is not None
    assert process.stderr.readline() == "bubblescope: recording into t.json\n"
    process.terminate()
    assert process.wait(30) == 143
    process.stderr.close(), process.stdout.close()
