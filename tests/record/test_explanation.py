"""When the recorded command dies, `record` closes with why, and its output is as it would be without."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bubblescope.record.ending import Ending
from bubblescope.record.explanation import cut_off, failure, last_words
from bubblescope.record.printed import LONGEST
from bubblescope.record.spool import read_spool
from bubblescope.trace.read import read_trace
from tests.collectors.programs import run_program
from tests.doctor.crashes import RAISED
from tests.record.commands import BUBBLESCOPE, ENDLESS, SHORT, begun, bubblescope, environment, python

PARTITION = "sum(partitions)=37 does not match num_hidden_layers=36."
EXPLAINED = (
    "bubblescope: The engine refused the layer partition: it sums to 37 layers, and the model has 36. "
    "What to do: numbers that sum to 36 in VLLM_PP_LAYER_PARTITION or SGLANG_PP_LAYER_PARTITION."
)
#: Stands in for an engine: logs to both outputs, says what its worker died of, and then what follows from it.
DYING = f"""
import logging, sys
print("starting", flush=True)
logging.basicConfig(format="%(levelname)s %(message)s")
try:
    raise ValueError("{PARTITION}")
except ValueError:
    logging.exception("EngineCore failed to start.")
print("half", end=" ", flush=True)
sys.stderr.write("\\x1b[31mred\\x1b[0m\\n")
print("a line", sys.stdout.isatty(), sys.stderr.isatty(), flush=True)
raise RuntimeError("Engine core initialization failed. See root cause above.")
"""
Way = Callable[[list[str], Path], tuple[int, str]]


def through_a_pipe(command: list[str], folder: Path) -> tuple[int, str]:
    done = subprocess.run(
        command, cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return done.returncode, done.stdout


def to_a_file(command: list[str], folder: Path) -> tuple[int, str]:
    with (folder / "log").open("w") as log:
        status = subprocess.call(command, cwd=folder, env=environment(), stdout=log, stderr=log)
    return status, (folder / "log").read_text()


def on_a_terminal(command: list[str], folder: Path) -> tuple[int, str]:
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execve(command[0], command, environment())
    shown = b""
    with contextlib.suppress(OSError):
        while data := os.read(terminal, 65536):
            shown += data
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown.decode().replace("\r\n", "\n")


def recorded(command: list[str]) -> list[str]:
    return [*BUBBLESCOPE, "record", "-o", "t.json", "--", *command]


def split(output: str) -> tuple[str, list[str]]:
    """The command's own output, and our lines, without those that only show progress."""
    lines = re.sub(r"\r\x1b\[Kbubblescope: [^\r\n]*(?=\r)|\r\x1b\[K(?=bubblescope)", "", output).splitlines(
        True
    )
    ours = [line for line in lines if line.startswith("bubblescope: ")]
    return "".join(line for line in lines if line not in ours), [line.rstrip("\n") for line in ours]


@pytest.mark.parametrize("way", [through_a_pipe, to_a_file, on_a_terminal])
def test_a_crash_is_explained_and_the_output_is_untouched(way: Way, tmp_path: Path) -> None:
    command = [sys.executable, "-c", DYING]
    alone, with_us = way(command, tmp_path), way(recorded(command), tmp_path)
    own, said = split(with_us[1])
    assert (with_us[0], own) == alone
    assert said[-1] == EXPLAINED


@pytest.mark.parametrize(("known", "words"), RAISED[::5])
def test_real_words_of_engines_are_known_again_in_a_process_that_says_them(
    known: str, words: str, tmp_path: Path
) -> None:
    """Logged by a stand-in, kept by the collector, explained; a fifth of them, as each takes a start."""
    from tests.collectors.test_last_words import ran

    ran(f"import logging; logging.error({words!r})", tmp_path)
    assert failure(tmp_path, 1, "")["known"] == known


def test_the_output_in_a_file_explains_a_program_that_is_not_python(tmp_path: Path) -> None:
    says = "echo 'ggml-cuda.cu: cudaMalloc failed: out of memory' >&2; exit 1"
    status, output = to_a_file(recorded(["sh", "-c", says]), tmp_path)
    own, said = split(output)
    assert (status, own) == (1, "ggml-cuda.cu: cudaMalloc failed: out of memory\n")
    assert said[-1].startswith("bubblescope: A GPU ran out of memory: ")


@pytest.mark.parametrize("how", [">>", ">"])
def test_only_what_the_command_printed_itself_is_looked_at(how: str, tmp_path: Path) -> None:
    """The file may hold the log of a run before, and more than is read."""
    (tmp_path / "log").write_text("RuntimeError: MXFP4 Marlin requires SM90+.\n")
    says = f"head -c {2 * LONGEST} /dev/zero | tr '\\0' 'x'; echo; echo 'Error: ours'; exit 7"
    shell = f'{" ".join(BUBBLESCOPE)} record -o t.json -- sh -c "$0" {how} log 2>&1'
    done = subprocess.run(["sh", "-c", shell, says], cwd=tmp_path, env=environment())
    assert done.returncode == 7
    assert (tmp_path / "log").read_text().splitlines()[-1] == (
        "bubblescope: the command ended with status 7, for a reason that is not known here; its own last "
        "error: Error: ours"
    )


def test_an_unknown_failure_is_quoted_and_the_cause_before_what_follows(tmp_path: Path) -> None:
    code = DYING.replace(PARTITION, "no such rope")
    _, output = through_a_pipe(recorded([sys.executable, "-c", code]), tmp_path)
    assert split(output)[1][-1] == (
        "bubblescope: the command ended with status 1, for a reason that is not known here; its own last "
        "error: ValueError: no such rope"
    )


@pytest.mark.parametrize(("end", "how"), [("exit 3", "status 3"), ("kill -9 $$", r"status 137 \(SIGKILL\)")])
def test_where_nothing_was_seen_it_is_said_how_to_explain_a_log(end: str, how: str, tmp_path: Path) -> None:
    _, output = through_a_pipe(recorded(["sh", "-c", end]), tmp_path)
    assert re.fullmatch(
        f"bubblescope: the command ended with {how}, and none of its own errors was seen; what it printed "
        "can be explained from a file: `bubblescope doctor --log FILE`",
        split(output)[1][-1],
    )


@pytest.fixture
def little_memory() -> Iterator[Path]:
    """A control group whose processes may take 60 MB."""
    group = Path(f"/sys/fs/cgroup/memory/bubblescope-{os.getpid()}")
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text("60000000")
    except OSError:
        pytest.skip("a control group of its own needs root, and version 1 of memory control")
    yield group
    group.rmdir()


def test_a_command_that_the_kernel_ended_for_its_memory(little_memory: Path, tmp_path: Path) -> None:
    greedy = f"echo $$ > {little_memory}/cgroup.procs; exec {sys.executable} -c 'bytearray(300_000_000)'"
    status, output = through_a_pipe(recorded(["sh", "-c", greedy]), tmp_path)
    assert status == 128 + signal.SIGKILL
    # Other processes of the machine may meet the same end meanwhile.
    assert re.match(
        r"bubblescope: the command ended with status 137 \(SIGKILL\) while the kernel ended \d+ of this "
        "machine's processes because memory ran out, and none of its own errors was seen",
        split(output)[1][-1],
    )


@pytest.mark.parametrize("code", ["print('fine')", "import logging; logging.error('seen, and went on')"])
def test_a_command_that_succeeds_is_not_explained(code: str, tmp_path: Path) -> None:
    done = bubblescope("record", "-o", "t.json", "--", sys.executable, "-c", code, cwd=tmp_path)
    assert done.returncode == 0
    assert "error" not in split(done.stderr)[1][-1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_command_that_was_asked_to_end_is_not_explained(number: signal.Signals, tmp_path: Path) -> None:
    process = begun("record", "-o", "t.json", "--", *python(ENDLESS), cwd=tmp_path)
    os.killpg(process.pid, number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    assert not [line for line in split(errors)[1] if "the command ended" in line]


def test_the_trace_says_why_and_holds_no_secret_and_nothing_raw(tmp_path: Path) -> None:
    code = SHORT + "raise ValueError(f'bad key {sys.argv[2]}, hf_abcdefghij0123456789')"
    done = subprocess.run(
        recorded([*python(code), "--api-key", "hunter2hunter2"]),
        cwd=tmp_path, env=environment(), capture_output=True, text=True,
    )  # fmt: skip
    facts = read_trace(tmp_path / "t.json").run.facts
    assert facts["failure"] == {
        "explanation": "the command ended with status 1, for a reason that is not known here; its own last "
        "error: ValueError: bad key [redacted], [redacted]",
        "line": "ValueError: bad key [redacted], [redacted]",
        "known": None,
        "source": "",
        "devices": [],
    }
    assert split(done.stderr)[1][-1] == f"bubblescope: {facts['failure']['explanation']}"
    assert not [name for name in facts if name.startswith("last_words")]
    assert "hunter2" not in (tmp_path / "t.json").read_text()


def test_the_device_of_the_stage_that_died_is_named(tmp_path: Path) -> None:
    code = """
        recorder.stage(0, rank=0, device="NVIDIA GeForce RTX 5090", capability="12.0")
        recorder.stage(1, rank=1, device="NVIDIA GeForce RTX 4090", capability="8.9")
        import logging
        logging.error("[2026-01-01 PP1 TP0] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate")
        """
    run_program(code, tmp_path)  # which does not listen, so that the words come as another writer's would
    run_program(
        "recorder.fact('last_words:ggml', '[PP1] torch.OutOfMemoryError: CUDA out of memory')", tmp_path
    )
    found = failure(tmp_path, 1, "")
    assert found["devices"] == [1]
    assert str(found["explanation"]).startswith(
        "A GPU ran out of memory on GPU 1 (NVIDIA GeForce RTX 4090): "
    )


def test_words_count_beside_a_long_output(tmp_path: Path) -> None:
    run_program(f"recorder.fact('last_words:1:0', 'ValueError: {PARTITION}')", tmp_path)
    assert failure(tmp_path, 1, "Error: x\n" * LONGEST)["known"] == "partition-sum"


def test_words_of_long_ago_are_left_out_and_what_is_no_text_too(tmp_path: Path) -> None:
    from tests.record.processes import process

    minute = 60_000_000_000
    facts = {
        "last_words:1:0": (0, '"long ago"'),
        "last_words:1:1": (6 * minute, '"the last"'),
        "last_words:2:0": (5 * minute, '"before it"'),
        "last_words:3:0": (5 * minute, "{"),
        "last_words:3:1": (5 * minute, "17"),
        "engine": (5 * minute, '"vllm"'),
    }
    assert last_words([process(facts=facts)]) == ["before it", "the last"]
    assert last_words([]) == []


def test_a_spool_that_cannot_be_read_does_not_keep_the_recording_from_its_end(tmp_path: Path) -> None:
    # GIVEN a command that leaves something in its spool that a later version wrote, and fails
    code = """
        import glob
        while not (names := glob.glob("t.json.spool/*.spool")):
            time.sleep(0.01)
        with open(names[0], "r+b") as file:
            file.seek(8)
            file.write(b"\\xff\\xff")
        sys.exit(3)
        """
    done = bubblescope("record", "-o", "t.json", "--", *python(code), cwd=tmp_path)
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
    assert split(done.stderr)[1][-1].startswith("bubblescope: the command ended with status 3, and none")


def test_a_server_that_could_not_be_driven_is_explained_only_by_what_it_said(tmp_path: Path) -> None:
    ending = Ending()
    ending.asked()  # by the driver, which gave up
    assert ending.failure(tmp_path, 130, in_vain=True) is None
    assert ending.failure(tmp_path, 0, in_vain=False) is None
    run_program(f"recorder.fact('last_words:1:0', 'ValueError: {PARTITION}')", tmp_path)
    found = ending.failure(tmp_path, 130, in_vain=True)
    assert found is not None
    assert found["known"] == "partition-sum"
    assert ending.failure(tmp_path, 130, in_vain=False) is None


def test_a_server_that_could_not_be_driven_and_ended_in_order_is_not_said_to_have_failed(
    tmp_path: Path,
) -> None:
    ending = Ending()
    ending.asked()
    run_program("recorder.fact('last_words:1:0', 'ValueError: no such rope')", tmp_path)
    found = ending.failure(tmp_path, 0, in_vain=True)
    assert found is not None
    assert found["explanation"] == (
        "the command ended with status 0, though its load could not be done; its own last error: "
        "ValueError: no such rope"
    )


def test_a_killed_recorder_takes_no_output_with_it(tmp_path: Path) -> None:
    # GIVEN a command that goes on printing / WHEN the recorder is killed
    code = (
        "import time\nprint('ready', flush=True)\nfor n in range(20): time.sleep(0.1); print(n, flush=True)"
    )
    process = begun("record", "-o", "t.json", "--", sys.executable, "-c", code, cwd=tmp_path)
    process.kill()
    # THEN everything is printed all the same
    output, _ = process.communicate(timeout=60)
    assert output == textwrap.dedent("\n".join(map(str, range(20)))) + "\n"


def test_the_spool_of_a_crash_holds_the_words_of_every_process(tmp_path: Path) -> None:
    from tests.collectors.test_last_words import CHILD, ran

    ran(CHILD + "\n    raise RuntimeError('Engine core initialization failed')", tmp_path)
    words = last_words(read_spool(str(tmp_path))[0])
    assert [text.splitlines()[-1] for text in words] == [
        "RuntimeError: worker failed",
        "RuntimeError: Engine core initialization failed",
    ]


#: What a process does when it is told of an error.
TELLS = f"recorder.fact('last_words:1:0', 'ValueError: {PARTITION}')"


def recorder_killed_before(end: str, folder: Path) -> None:
    """Has a command recorded into t.json.spool that ends so, after its recorder was killed."""
    code = SHORT + f"print('ready', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.01)\n{end}"
    process = begun("record", "-o", "t.json", "--", *python(code), cwd=folder, says="done\n")
    process.kill()
    process.wait()
    (folder / "go").touch()
    process.communicate(timeout=60)  # its outputs close when the command has ended


@pytest.mark.parametrize(
    ("end", "said", "known"),
    [
        (
            f"raise ValueError('{PARTITION}')",
            f"one of its errors is known. {EXPLAINED.removeprefix('bubblescope: ')}",
            "partition-sum",
        ),
        ("raise KeyError('rope')", "its own last error: KeyError: 'rope'", None),
    ],
)
def test_merge_explains_what_a_killed_recorder_could_not(
    end: str, said: str, known: str | None, tmp_path: Path
) -> None:
    recorder_killed_before(end, tmp_path)
    done = bubblescope("merge", "t.json.spool", cwd=tmp_path)
    text = f"how the command ended was not recorded; {said}"
    assert (done.returncode, done.stderr) == (0, f"bubblescope: {text}\n")
    fact = read_trace(tmp_path / "t.json").run.facts["failure"]
    assert (fact["explanation"], fact["known"]) == (text, known)


@pytest.mark.parametrize("end", ["pass", "sys.exit(3)"])
def test_merge_explains_nothing_where_no_error_was_seen(end: str, tmp_path: Path) -> None:
    recorder_killed_before(end, tmp_path)
    done = bubblescope("merge", "t.json.spool", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "failure" not in read_trace(tmp_path / "t.json").run.facts


def test_merge_explains_a_command_that_died_before_it_did_any_work(tmp_path: Path) -> None:
    spool = tmp_path / "t.json.spool"
    spool.mkdir()
    run_program(TELLS, spool)
    done = bubblescope("merge", "t.json.spool", cwd=tmp_path)
    assert done.returncode == 3
    explained, reason = done.stderr.splitlines()
    assert explained.startswith(
        "bubblescope: how the command ended was not recorded; one of its errors is known."
    )
    assert "no process wrote an event" in reason


def test_what_still_runs_has_not_failed_whatever_errors_it_told(tmp_path: Path) -> None:
    process = begun("record", "-o", "t.json", "--", *python(f"{TELLS}\n{ENDLESS}"), cwd=tmp_path)
    process.kill()
    try:
        assert cut_off(tmp_path / "t.json.spool") is None
    finally:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    # AND when it has been ended as well, what it told is all that is known
    found = cut_off(tmp_path / "t.json.spool")
    assert found is not None
    assert found["known"] == "partition-sum"


def test_of_a_command_whose_end_the_recorder_saw_merge_has_nothing_to_explain(tmp_path: Path) -> None:
    run_program(TELLS, tmp_path)
    assert cut_off(tmp_path) is not None
    # WHEN the recorder told the end of it
    run_program("recorder.fact('exit_status', 1)", tmp_path)
    # THEN it has explained it, too
    assert cut_off(tmp_path) is None
