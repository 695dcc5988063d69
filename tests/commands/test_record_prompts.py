"""Options that speak of prompts are refused where none are sent, instead of being passed over."""

from __future__ import annotations

from pathlib import Path

import pytest

from bubblescope.cli import main


@pytest.mark.parametrize(
    "option",
    [
        ["--requests", "3"],  # also as large as it is without being said
        ["--concurrency", "2"],
        ["--output-tokens", "1"],
        ["--warmup", "0"],
        ["--url", "http://127.0.0.1:8000"],
        ["--ready-seconds", "60"],
    ],
)
def test_without_prompt_tokens_one_line_says_so(
    option: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["record", *option, "--", "touch", "started"]) == 125
    said = f"bubblescope: {option[0]}: no prompts are sent without --prompt-tokens N\n"
    assert capsys.readouterr().err == said
    assert list(tmp_path.iterdir()) == []
