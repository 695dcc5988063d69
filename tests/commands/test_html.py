"""`report --html` and `view`: where the page goes, and what is said about it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from bubblescope.errors import NOT_A_TRACE, USAGE

TRACE = Path(__file__).parent.parent.parent / "sample_traces" / "h200x2_uneven"

#: No screen, whoever runs the tests.
HEADLESS = {
    name: value for name, value in os.environ.items() if name not in {"DISPLAY", "WAYLAND_DISPLAY", "BROWSER"}
}


def run(*arguments: object, environment: Mapping[str, str] = HEADLESS) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bubblescope", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=dict(environment), timeout=300)


def test_the_page_is_written_beside_the_report_that_was_asked_for(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    done = run("report", TRACE, "--json", "--html", page)
    assert (done.returncode, done.stderr) == (0, f"wrote {page}\n")
    assert json.loads(done.stdout)["pipeline"]
    assert page.read_text().startswith("<!DOCTYPE html>")


def test_a_page_that_is_there_is_kept_unless_told_otherwise(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text("precious")
    refused = run("report", TRACE, "--html", page)
    assert refused.returncode == USAGE
    assert refused.stderr.count("\n") == 1
    assert "--force overwrites it" in refused.stderr
    assert page.read_text() == "precious"
    assert run("report", TRACE, "--html", page, "--force").returncode == 0
    assert page.read_text() != "precious"


def test_a_page_that_cannot_be_written_is_one_line_beside_the_report(tmp_path: Path) -> None:
    done = run("report", TRACE, "--json", "--html", tmp_path / "no such folder" / "report.html")
    assert done.returncode == USAGE
    assert done.stderr.count("\n") == 1
    assert "cannot write" in done.stderr
    assert json.loads(done.stdout)["pipeline"]


def test_what_is_no_trace_leaves_no_page(tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_text("[]")
    done = run("report", tmp_path / "trace.json", "--html", tmp_path / "report.html")
    assert done.returncode == NOT_A_TRACE
    assert not (tmp_path / "report.html").exists()


def test_view_opens_a_page_that_its_owner_alone_can_read(tmp_path: Path) -> None:
    # GIVEN a browser that writes down what it was to open
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > "{opened}"\n')
    browser.chmod(0o700)
    done = run("view", TRACE, environment={**HEADLESS, "BROWSER": str(browser), "TMPDIR": str(tmp_path)})
    # THEN it was given the file whose path is printed
    assert (done.returncode, done.stderr) == (0, "")
    page = Path(done.stdout.removesuffix("\n"))
    assert page.parent == tmp_path
    assert opened.read_text() == page.as_uri()
    assert page.stat().st_mode & 0o777 == 0o600
    assert page.read_text().startswith("<!DOCTYPE html>")


def test_view_without_a_screen_says_what_to_do(tmp_path: Path) -> None:
    done = run("view", TRACE, environment={**HEADLESS, "TMPDIR": str(tmp_path)})
    assert done.returncode == 0
    assert Path(done.stdout.removesuffix("\n")).is_file()
    if sys.platform == "linux":
        assert "no browser can be opened from here; open the file above in one" in done.stderr
