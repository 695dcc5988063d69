"""An empty name, as of a variable that is not set, is refused wherever a file or folder is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from bubblescope.cli import cli, main


@pytest.mark.parametrize(
    "args",
    [
        ["report", ""],
        ["view", ""],
        ["redact", ""],
        ["merge", ""],
        ["export", "", "--perfetto", "all.json"],
        ["report", "trace.json", "--html", ""],
        ["redact", "trace.json", "-o", ""],
        ["export", "trace.json", "--perfetto", ""],
        ["merge", "folder.spool", "-o", ""],
    ],
)
def test_it_does_not_mean_the_current_folder(args: list[str]) -> None:
    done = CliRunner().invoke(cli, args)
    assert done.exit_code == 2
    assert "the name of a file or folder is empty" in done.output


@pytest.mark.parametrize(
    ("args", "status", "said"),
    [
        (["-o", "", "--", "true"], 125, "the name of a file or folder is empty"),
        (["-o", "trace.json", "--", ""], 127, "the name of the command is empty"),
    ],
)
def test_a_recording_is_refused_with_a_status_of_its_own(
    args: list[str],
    status: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["record", *args]) == status
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("bubblescope: ") and said in line
    assert list(tmp_path.iterdir()) == []
