"""Whatever a recording says, each command shows it or says in one line why not, soon and safely."""

from __future__ import annotations

import io
import json
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from bubblescope.cli import main
from tests.commands.mutations import mutated, sample

#: Of engines, tables and facts as different as possible.
NAMES = (
    "llama_h200x2_small_13_11", "torch_h200x2_clocks", "vllm_h200x2_27_9", "vllm_cpu_6_2_layers",
    "torch_h200x2_12_4_spans_kernels",
)  # fmt: skip
#: What `docs/exit-status.md` knows; a fault of ours, 20, is not among them.
STATUSES = {0, 2, 3, 4}
#: Far more than any of them takes, and less than a person waits.
MOST_SECONDS = 30
#: Characters that terminals obey, but for the end of a line.
OBEYED = re.compile("[^\n\x20-\x7e\xa0-\U0010ffff]|[\u202a-\u202e\u2066-\u2069]")


class Seen(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture(scope="module")
def samples() -> dict[str, dict[str, Any]]:
    return {name: sample(name) for name in NAMES}


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> Seen:
    """Run a command with streams as it has them outside of tests."""
    streams = {name: io.TextIOWrapper(io.BytesIO(), "utf-8") for name in ("stdout", "stderr")}
    with monkeypatch.context() as patched:
        for name, stream in streams.items():
            patched.setattr(sys, name, stream)
        begin = time.monotonic()
        status = main(list(map(str, arguments)))
        assert time.monotonic() - begin < MOST_SECONDS
        for stream in streams.values():
            stream.flush()
    out, err = (stream.buffer.getvalue().decode() for stream in streams.values())  # type: ignore[attr-defined]
    assert status in STATUSES, err
    assert not OBEYED.search(err)
    assert err.count("\n") == 1 or status not in (2, 3)
    return Seen(status, out, err)


def recordings(samples: dict[str, dict[str, Any]], seeds: range, path: Path) -> Iterator[int]:
    """Writes one senseless recording after the other."""
    for seed in seeds:
        random = Random(seed)
        path.write_text(json.dumps(mutated(samples[random.choice(NAMES)], random)))
        yield seed


def test_reports(samples: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.json"
    shown = 0
    for _ in recordings(samples, range(14), path):
        seen = run(monkeypatch, "report", path)
        assert not OBEYED.search(seen.out)
        shown += bool(seen.out)
    assert shown > 5


def test_programs_get_json_with_numbers_that_json_has(
    samples: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    path = tmp_path / "t.json"
    for _ in recordings(samples, range(100, 110), path):
        seen = run(monkeypatch, "report", "--json", path)
        if seen.status in (0, 4):
            assert isinstance(json.loads(seen.out, parse_constant=refuse), dict)


def test_markdown_and_pages_hold_no_markup_of_the_recording(
    samples: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, page = tmp_path / "t.json", tmp_path / "page.html"
    for _ in recordings(samples, range(200, 205), path):
        seen = run(monkeypatch, "report", "--markdown", path)
        assert not re.search(r"(?<!\\)<script", seen.out)
        if run(monkeypatch, "report", "--html", page, path).status in (0, 4):
            assert "<script>alert" not in page.read_text()
            page.unlink()


def test_copies_can_be_read_again(samples: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, copy = tmp_path / "t.json", tmp_path / "copy.json"
    for _ in recordings(samples, range(300, 304), path):
        for command in (("redact", "-o", copy), ("export", "--perfetto", copy)):
            seen = run(monkeypatch, *command, path, "--force")
            if seen.status in (0, 4):
                run(monkeypatch, "redact", "-o", tmp_path / "again.json", copy, "--force")


def test_several_are_merged_or_refused(samples: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = tmp_path / "one.json", tmp_path / "other.json"
    for seed in recordings(samples, range(400, 405), one):
        second = mutated(samples["vllm_h200x2_27_9"], Random(-seed))
        if isinstance(second["bubblescope"], dict):
            offset = Random(seed).choice([0, 1 << 60, -(1 << 62), 1 << 70, None])
            facts = second["bubblescope"].get("run", {}).get("facts")
            if isinstance(facts, dict):
                facts["clock"] = {"id": "another", "wall_offset_ns": offset}
        other.write_text(json.dumps(second))
        run(monkeypatch, "merge", one, other, "-o", tmp_path / "all.json", "--force")
