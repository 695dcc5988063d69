"""The command line as a person and a shell meet it: statuses, one-line errors, quick help."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from bubblescope import __version__
from bubblescope.cli import cli, main
from bubblescope.commands import COMMANDS
from bubblescope.errors import NotATraceError, UsageError

BUBBLESCOPE = [sys.executable, "-m", "bubblescope"]


def run(*args: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*BUBBLESCOPE, *args], capture_output=True, text=True, timeout=60, **options)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], int]:
    """Runs a function as if it were the command `bubblescope act`; returns the exit status."""

    def run_as_command(action: Callable[[], object]) -> int:
        monkeypatch.setitem(cli.commands, "act", click.Command("act", callback=action))
        return main(["act"])

    return run_as_command


def raising(error: BaseException) -> Callable[[], None]:
    def action() -> None:
        raise error

    return action


def test_help_names_every_command_in_its_own_words() -> None:
    shown = run("--help")
    assert shown.returncode == 0
    for name, entry in COMMANDS.items():
        assert f"{name} " in shown.stdout
        assert entry.summary in shown.stdout


def test_help_imports_nothing_heavy() -> None:
    # GIVEN a fresh interpreter / WHEN it shows the help / THEN only click and ours are loaded
    heavy = {"pandas", "numpy", "rich", "orjson", "msgspec"}
    script = (
        "import sys; from bubblescope.cli import main; main(['--help']);"
        f"print('loaded:', sorted({heavy} & set(sys.modules)),"
        "[m for m in sys.modules if m.startswith('bubblescope.commands.')])"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert shown.stdout.splitlines()[-1] == "loaded: [] []"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name: str) -> None:
    shown = run(name, "--help")
    assert shown.returncode == 0, shown.stderr
    assert f"bubblescope {name}" in shown.stdout.split("Usage:")[1].split("\n", 1)[1]


def test_version() -> None:
    assert run("--version").stdout == f"bubblescope {__version__}\n"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["reprot"], "No such command 'reprot'"),
        (["--colour"], "No such option"),
        (["completion", "tcsh"], "'tcsh' is not one of"),
        ([], "Usage: bubblescope"),
    ],
)
def test_wrong_usage_is_said_with_status_2(args: list[str], said: str) -> None:
    failed = run(*args)
    assert failed.returncode == 2
    assert said in failed.stderr
    assert failed.stdout == ""


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (NotATraceError("a.json: empty trace"), 3, "bubblescope: a.json: empty trace"),
        (UsageError("--window: no request 7"), 2, "bubblescope: --window: no request 7"),
        (
            FileNotFoundError(errno.ENOENT, "No such file or directory", "a.json"),
            3,
            "bubblescope: a.json: No such file or directory",
        ),
        (OSError(errno.ENOSPC, "No space left on device"), 3, "bubblescope: output: No space left on device"),
        (KeyboardInterrupt(), 130, "bubblescope: interrupted"),
    ],
)
def test_an_error_is_one_line_and_its_status(
    command: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    status: int,
    line: str,
) -> None:
    assert command(raising(error)) == status
    assert capsys.readouterr().err == line + "\n"


def test_a_fault_of_ours_names_itself_and_asks_to_be_reported(
    command: Callable[..., int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BUBBLESCOPE_DEBUG", raising=False)
    assert command(raising(ZeroDivisionError("a division\nof 4"))) == 20
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith("bubblescope: ZeroDivisionError: a division\\nof 4")
    assert "please report it" in said

    monkeypatch.setenv("BUBBLESCOPE_DEBUG", "1")
    assert command(raising(ZeroDivisionError("a division of 4"))) == 20
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_an_error_that_quotes_a_hostile_file_stays_one_harmless_line(
    command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    command(raising(NotATraceError("\x1b[2Jé\n\udcff.json: empty trace")))
    assert capsys.readouterr().err == "bubblescope: \\x1b[2Jé\\n\\udcff.json: empty trace\n"


def test_a_command_returns_its_own_status(command: Callable[..., int]) -> None:
    assert command(lambda: 4) == 4
    assert command(lambda: None) == 0
    assert command(lambda: click.get_current_context().exit(4)) == 4


def test_text_that_the_terminal_cannot_show_is_escaped() -> None:
    script = (
        "import click; from bubblescope.cli import cli, main;"
        "cli.add_command(click.Command('act', callback=lambda: print('\\u00e9'))); main(['act'])"
    )
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, env=environment, timeout=60)
    assert (shown.stdout, shown.stderr) == (b"\\xe9\n", b"")


@pytest.mark.skipif(not hasattr(signal, "SIGPIPE"), reason="no broken pipes on this system")
def test_a_reader_that_goes_away_ends_it_quietly() -> None:
    # GIVEN a pipe whose reading end is closed
    read, write = os.pipe()
    os.close(read)
    # WHEN the help is written into it
    ended = subprocess.run([*BUBBLESCOPE, "--help"], stdout=write, stderr=subprocess.PIPE, timeout=60)
    os.close(write)
    # THEN it ends as a program does that a shell sees killed by SIGPIPE, and says nothing
    assert ended.returncode == 128 + signal.SIGPIPE
    assert ended.stderr == b""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full on this system")
def test_output_that_cannot_be_written_is_one_line() -> None:
    with open("/dev/full", "wb") as full:
        ended = subprocess.run([*BUBBLESCOPE, "--help"], stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert ended.returncode == 3
    assert ended.stderr == b"bubblescope: output: No space left on device\n"


def test_the_bash_script_completes_commands_in_bash(tmp_path: Path) -> None:
    # GIVEN the script / WHEN bash completes `bubblescope re` with it / THEN it offers these two
    program = tmp_path / "bubblescope"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m bubblescope "$@"\n')
    program.chmod(0o755)
    ask = (
        f"{run('completion', 'bash').stdout}\nCOMP_WORDS=(bubblescope re); COMP_CWORD=1;"
        f"_bubblescope_completion {program}; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    offered = subprocess.run(["bash", "--norc", "-c", ask], capture_output=True, text=True, timeout=60)
    assert {"report", "redact"} <= set(offered.stdout.split())
    assert "completion" not in offered.stdout.split()


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_other_shells_have_scripts_too(shell: str) -> None:
    shown = run("completion", shell)
    assert shown.returncode == 0
    assert f"_BUBBLESCOPE_COMPLETE={shell}_complete" in shown.stdout
