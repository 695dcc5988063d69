"""Progress for a person who waits at a terminal, and for nobody else."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from bubblescope.report import progress


def _read(*, terminal: bool) -> str:
    file = io.StringIO()
    with progress.reading(Console(file=file, force_terminal=terminal, width=80)) as advance:
        advance(1_000_000, 4_000_000)
        advance(4_000_000, 4_000_000)
    return file.getvalue()


def test_a_long_read_shows_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE_S", 0.0)
    seen = _read(terminal=True)
    assert "Reading" in seen
    assert "MB" in seen


def test_a_short_read_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE_S", float("inf"))
    assert _read(terminal=True) == ""


def test_nothing_is_drawn_into_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE_S", 0.0)
    assert _read(terminal=False) == ""


def test_the_bar_is_gone_when_reading_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE_S", 0.0)
    file = io.StringIO()
    with pytest.raises(OSError), progress.reading(Console(file=file, force_terminal=True)) as advance:
        advance(1, 2)
        raise OSError
    # The cursor, hidden by the bar, is shown again.
    assert file.getvalue().rfind("\x1b[?25h") > file.getvalue().rfind("\x1b[?25l")
