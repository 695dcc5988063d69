"""However a recording ends there is a trace of all before, or one clear line and a spool to merge."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bubblescope.demo import schedule
from bubblescope.trace.model import Lost
from bubblescope.trace.read import read_trace
from tests.record.commands import (
    BUBBLESCOPE,
    ENDLESS,
    SHORT,
    STUCK,
    begun,
    bubblescope,
    descendants,
    environment,
    is_running,
    microbatches,
    python,
    stages_of_the_demo,
    wait_until,
)

#: Says which signals it gets, and ends one second after the first.
LISTENER = """
import signal, sys, time
def tell(number, _):
    print(signal.Signals(number).name, flush=True)
    signal.setitimer(signal.ITIMER_REAL, 1)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
    signal.signal(number, tell)
signal.signal(signal.SIGALRM, lambda *_: sys.exit(5))
print("ready", flush=True)
while True:
    time.sleep(10)
"""


def ended(process: subprocess.Popen[str]) -> tuple[int, list[str]]:
    """Exit status, and what bubblescope said after its first line."""
    _, errors = process.communicate(timeout=60)
    return process.returncode, [line for line in errors.splitlines() if line.startswith("bubblescope: ")][1:]


def worked_for_a_while(spool: Path) -> None:
    """Waits until an engine has filled more than its first file, 1020 spans."""
    wait_until(lambda: len({path.name.split("-")[-1] for path in spool.glob("*.spool")}) > 1)


def without_gap(found: list[int]) -> bool:
    return len(found) > 1000 and found == list(range(len(found)))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
@pytest.mark.parametrize("to", ["the launcher", "the group"])
def test_a_signal_reaches_the_command_exactly_once(number: signal.Signals, to: str, tmp_path: Path) -> None:
    process = begun("record", "-o", "t.json", "--", sys.executable, "-c", LISTENER, cwd=tmp_path)
    (os.kill if to == "the launcher" else os.killpg)(process.pid, number)
    output, _ = process.communicate(timeout=60)
    assert (process.returncode, output) == (5, f"{number.name}\n")


def test_sigterm_ends_the_command_and_the_trace_is_whole(tmp_path: Path) -> None:
    # GIVEN a command in the middle of its 1501st microbatch
    process = begun("record", "-o", "t.json", "--", *python(STUCK), cwd=tmp_path)
    process.terminate()
    status, said = ended(process)
    assert status == 128 + signal.SIGTERM
    assert len(said) == 1 and " in t.json, " in said[0]
    trace = read_trace(tmp_path / "t.json")
    assert microbatches(trace) == list(range(1500))
    # THEN the span it died in is named
    assert [(lost.what, lost.count) for lost in trace.run.lost] == [("spans", 1)]
    assert "forward of microbatch 1500 on stage 0" in trace.run.lost[0].why


class Terminal:
    """A terminal with `bubblescope record` in its foreground."""

    def __init__(self, *arguments: str, cwd: Path) -> None:
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            os.execve(sys.executable, [*BUBBLESCOPE, *arguments], environment())
        self.shown = ""

    def press(self, key: bytes) -> None:
        os.write(self._terminal, key)

    def show(self, text: str, times: int = 1) -> None:
        """Waits until a text is on the screen so many times."""
        while self.shown.count(text) < times:
            self.shown += os.read(self._terminal, 4096).decode()

    def close(self) -> int:
        """The exit status, when everything is shown."""
        with contextlib.suppress(OSError):
            while data := os.read(self._terminal, 4096):
                self.shown += data.decode()
        os.close(self._terminal)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def test_ctrl_c_reaches_the_command_once_and_the_trace_is_whole(tmp_path: Path) -> None:
    terminal = Terminal("record", "-o", "t.json", "--", *python(ENDLESS), cwd=tmp_path)
    terminal.show("ready")
    worked_for_a_while(tmp_path / "t.json.spool")
    terminal.press(b"\x03")
    assert terminal.close() == 130
    assert terminal.shown.count("KeyboardInterrupt") == 1
    assert without_gap(microbatches(tmp_path / "t.json"))


def test_ctrl_c_twice_is_two_for_the_command_and_none_for_us(tmp_path: Path) -> None:
    terminal = Terminal("record", "-o", "t.json", "--", sys.executable, "-c", LISTENER, cwd=tmp_path)
    terminal.show("ready")
    for press in (1, 2):
        terminal.press(b"\x03")
        terminal.show("SIGINT", press)
    assert terminal.close() == 5
    assert terminal.shown.count("SIGINT") == 2


def test_a_second_ctrl_c_while_merging_only_warns_and_a_third_keeps_the_spool(tmp_path: Path) -> None:
    # GIVEN a recording so large that its merge takes a while
    code = """
        stage = recorder.stage(0, rank=0)
        for microbatch in range(300_000):
            with stage.span("forward", microbatch=microbatch):
                pass
        """
    terminal = Terminal("record", "-o", "t.json.gz", "--", *python(code), cwd=tmp_path)
    terminal.show("writing t.json.gz")
    # WHEN Ctrl-C is pressed twice
    terminal.press(b"\x03")
    terminal.show("once more Ctrl-C stops that")
    terminal.press(b"\x03")
    # THEN the spool is left, nothing half written beside it, and merging it gives everything
    assert terminal.close() == 125
    assert "interrupted before the trace was written; `bubblescope merge t.json.gz.spool`" in terminal.shown
    assert [path.name for path in tmp_path.iterdir()] == ["t.json.gz.spool"]
    done = bubblescope("merge", "t.json.gz.spool", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert microbatches(tmp_path / "t.json.gz") == list(range(300_000))


def test_kill_9_of_a_stage(tmp_path: Path) -> None:
    # GIVEN the embedded engine in the middle of its work
    process = start_demo(tmp_path)
    # WHEN its second stage is killed
    os.kill(stages_of_the_demo(process.pid)[1], signal.SIGKILL)
    status, said = ended(process)
    # THEN the engine's own failure is kept, and both stages are in the trace up to then
    assert status == 1
    assert " in t.json, " in said[-2]
    assert said[-1].startswith("bubblescope: the command ended with status 1")
    trace = read_trace(tmp_path / "t.json")
    forward = trace.spans[trace.spans["kind"] == "forward"]
    assert set(forward["stage"]) == {0, 1}
    assert {0, 1} <= set(forward.loc[forward["stage"] == 1, "microbatch"])  # the warm-up was done
    assert trace.run.facts["exit_status"] == 1


def test_kill_9_of_the_launcher_harms_nobody_and_the_spool_becomes_a_trace(tmp_path: Path) -> None:
    # GIVEN a launcher that is killed while its command works
    process = start_demo(tmp_path)
    engine = descendants(process.pid)
    process.kill()
    # THEN the command runs to its end, and leaves nothing of us running
    process.communicate(timeout=60)
    wait_until(lambda: not any(map(is_running, engine)))
    # AND its spool holds everything
    done = bubblescope("merge", "t.json.spool", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("wrote t.json: ")
    trace = read_trace(tmp_path / "t.json")
    forward = trace.spans[trace.spans["kind"] == "forward"]
    assert sorted(forward["microbatch"].tolist()) == sorted(
        2 * list(range(schedule.microbatches(schedule.REQUESTS)))
    )
    assert trace.run.engine == "bubblescope-demo"
    assert trace.run.command[1:] == ("-m", "bubblescope.demo")
    assert trace.run.lost == ()


def test_kill_9_of_everything_at_once(tmp_path: Path) -> None:
    process = start_demo(tmp_path)
    engine = descendants(process.pid)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    wait_until(lambda: not any(map(is_running, engine)))
    done = bubblescope("merge", "t.json.spool", "-o", "other.json.gz", cwd=tmp_path)
    assert done.returncode == 0
    spans = read_trace(tmp_path / "other.json.gz").spans
    forward = spans[spans["kind"] == "forward"]
    for stage in (0, 1):
        found = forward.loc[forward["stage"] == stage, "microbatch"].tolist()
        assert found == list(range(len(found))) and len(found) >= 2
    # AND the spool stays until it is removed by hand
    assert (tmp_path / "t.json.spool").is_dir()


def start_demo(folder: Path) -> subprocess.Popen[str]:
    """The embedded engine being recorded into t.json; it has answered its warm-up."""
    command = (sys.executable, "-m", "bubblescope.demo")
    return begun("record", "-o", "t.json", "--", *command, cwd=folder, says="request 0")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own of 1 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("a small disk of its own needs root and a mount")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_disk_that_fills_up_leaves_the_spool_and_one_line(disk: Path, tmp_path: Path) -> None:
    # GIVEN more spans than the disk holds
    code = """
        stage = recorder.stage(0, rank=0)
        for microbatch in range(40_000):
            with stage.span("forward", microbatch=microbatch):
                pass
        print("done")
        """
    done = bubblescope("record", "-o", "t.json", "--", *python(code), cwd=disk)
    # THEN the command never notices, and one line says what to do
    assert (done.returncode, done.stdout) == (125, "done\n")
    said = done.stderr.splitlines()
    assert len(said) == 2
    assert "cannot write" in said[1] and "No space left on device" in said[1]
    assert said[1].endswith("`bubblescope merge t.json.spool` makes a trace of what was recorded")
    assert [path.name for path in disk.iterdir()] == ["t.json.spool"]
    # AND with a place to write to, there is a trace of all before, which says what is missing
    done = bubblescope("merge", "t.json.spool", "-o", tmp_path / "t.json", cwd=disk)
    assert done.returncode == 0
    trace = read_trace(tmp_path / "t.json")
    found = microbatches(trace)
    assert without_gap(found)
    (lost,) = [lost for lost in trace.run.lost if lost.what == "events"]
    assert (lost.count, lost.why) == (40_000 - len(found), "there was no room left on the disk")


def test_processes_that_found_the_disk_full_are_said_to_be_missing(disk: Path) -> None:
    # GIVEN a disk with room for the recorder's own facts and for one process, of two
    _fill(disk, but_for=54 << 10)
    code = SHORT + "child = os.fork()\nif child:\n    os.waitpid(child, 0)\n    sys.exit()" + SHORT
    done = bubblescope("record", "-o", "t.json.gz", "--", *python(code), cwd=disk)
    assert done.returncode == 0
    # THEN a line says so, and the trace, which holds the facts of the command's end
    why = (
        "the disk was full when the command ended: whole processes may be missing, and the last events of "
        "others; name a file on another disk with -o"
    )
    assert done.stderr.splitlines()[1] == f"bubblescope: {why}"
    trace = read_trace(disk / "t.json.gz")
    assert microbatches(trace) == [0, 1, 2]
    assert trace.run.facts["exit_status"] == 0
    assert Lost("recording", why) in trace.run.lost


def test_a_disk_without_room_for_any_process_is_no_silent_success(disk: Path) -> None:
    # GIVEN a disk with room for the recorder's own facts alone
    _fill(disk, but_for=36 << 10)
    done = bubblescope("record", "-o", "t.json.gz", "--", *python(SHORT), cwd=disk)
    assert (done.returncode, done.stdout) == (125, "done\n")
    why = "the disk was full, so the command's processes had no room to write"
    assert done.stderr.splitlines()[1:] == [f"bubblescope: nothing was recorded: {why}"]


def _fill(disk: Path, but_for: int) -> None:
    with (disk / "ballast").open("wb", buffering=0) as ballast:
        with contextlib.suppress(OSError):
            while True:
                ballast.write(b"x" * 4096)
        ballast.truncate(ballast.tell() - but_for)


def test_a_disk_that_is_full_from_the_start_is_said_before_the_command_runs(disk: Path) -> None:
    _fill(disk, but_for=0)
    done = bubblescope("record", "-o", "t.json", "--", *python(SHORT), cwd=disk)
    assert (done.returncode, done.stdout) == (125, "")
    assert done.stderr == "bubblescope: cannot record into t.json.spool: No space left on device\n"
    assert [path.name for path in disk.iterdir()] == ["ballast"]


def test_a_command_that_removes_the_spool_folder(tmp_path: Path) -> None:
    code = SHORT + "time.sleep(0.5); import shutil; shutil.rmtree('t.json.spool')"
    done = bubblescope("record", "-o", "t.json", "--", *python(code), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (125, "done\n")
    assert len(done.stderr.splitlines()) == 2
