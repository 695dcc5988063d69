"""`bubblescope merge` by hand: spools, traces, several hosts, and what is none of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from bubblescope.trace.read import read_trace
from tests.collectors.programs import recorded
from tests.record.commands import bubblescope, microbatches

STAGE = """
    stage = recorder.stage({stage}, rank={stage})
    stage.span("send", microbatch=1, peer={peer}).begin().end()
    time.sleep(0.01)
    stage.span("recv", microbatch=2, peer={peer}).begin().end()
    """


def spool_of_a_host(folder: Path, stage: int, peer: int) -> Path:
    """A spool as a host of its own left it: with a clock of its own, so another boot id."""
    spool = folder / f"host{stage}.json.spool"
    spool.mkdir()
    recorded(STAGE.format(stage=stage, peer=peer), spool)
    for path in spool.iterdir():
        data = bytearray(path.read_bytes())
        data[64:100] = f"boot-{stage}".encode().ljust(36, b"\0")
        path.write_bytes(data)
    return spool


def test_a_spool_becomes_the_trace_it_was_made_for_and_stays(tmp_path: Path) -> None:
    spool_of_a_host(tmp_path, 0, 1)
    done = bubblescope("merge", "host0.json.spool", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "wrote host0.json: 2 spans, 1 stage, 0 requests\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["host0.json", "host0.json.spool"]
    assert microbatches(tmp_path / "host0.json") == [1, 2]


def test_nothing_is_overwritten_without_force(tmp_path: Path) -> None:
    spool_of_a_host(tmp_path, 0, 1)
    (tmp_path / "host0.json").write_text("precious")
    refused = bubblescope("merge", "host0.json.spool", cwd=tmp_path)
    assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)
    assert (tmp_path / "host0.json").read_text() == "precious"
    assert bubblescope("merge", "--force", "host0.json.spool", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize("again", ["host0.json.spool", "./host0.json.spool", "host0.json", "both.json"])
def test_a_recording_that_is_named_twice_is_refused(again: str, tmp_path: Path) -> None:
    # GIVEN a spool, and the same recording as a trace and as a part of one
    for stage in (0, 1):
        spool_of_a_host(tmp_path, stage, 1 - stage)
    assert bubblescope("merge", "host0.json.spool", cwd=tmp_path).returncode == 0
    both = ("merge", "-o", "both.json", "host0.json.spool", "host1.json.spool")
    assert bubblescope(*both, cwd=tmp_path).returncode == 0
    # WHEN it is merged with any of them, and with another beside
    done = bubblescope("merge", "-o", "new.json", "host0.json.spool", "host1.json.spool", again, cwd=tmp_path)
    # THEN that is said in one line, and nothing is written
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        f"bubblescope: {again.removeprefix('./')}: host0.json.spool holds the same recording, which would "
        "count twice; name one of them"
    ]
    assert not (tmp_path / "new.json").exists()


@pytest.mark.parametrize("of", ["spools", "traces"])
def test_hosts_are_joined_and_their_clocks_refused_where_messages_do_not_bound_them(
    of: str, tmp_path: Path
) -> None:
    # GIVEN two hosts that never received what the other sent: the microbatches differ
    sources: list[Path] = [spool_of_a_host(tmp_path, 0, 1), spool_of_a_host(tmp_path, 1, 0)]
    if of == "traces":
        for source in sources:
            assert bubblescope("merge", source.name, cwd=tmp_path).returncode == 0
        sources = [tmp_path / "host0.json", tmp_path / "host1.json"]
    done = bubblescope("merge", "-o", "both.json", *sources, cwd=tmp_path)
    assert done.returncode == 0
    trace = read_trace(tmp_path / "both.json")
    assert [device.stage for device in trace.run.devices] == [0, 1]
    assert not trace.run.clock.aligned
    assert "no matched messages" in trace.run.clock.how


@pytest.mark.parametrize(
    ("content", "status", "reason"),
    [
        ({}, 3, "no trace in"),
        ({"00000000000000000001-7-abc-000000.spool": b"not one"}, 3, "no process wrote an event"),
        ({"notes.txt": b"x"}, 3, "no trace in"),
    ],
)
def test_a_folder_that_is_no_spool_is_refused_in_one_line(
    content: dict[str, bytes], status: int, reason: str, tmp_path: Path
) -> None:
    folder = tmp_path / "x.json.spool"
    folder.mkdir()
    for name, data in content.items():
        (folder / name).write_bytes(data)
    done = bubblescope("merge", "x.json.spool", cwd=tmp_path)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (status, "", 1)
    assert reason in done.stderr
    assert not (tmp_path / "x.json").exists()


def test_a_folder_that_is_not_there_is_wrong_usage(tmp_path: Path) -> None:
    done = bubblescope("merge", "missing.spool", cwd=tmp_path)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)


def test_a_damaged_spool_is_merged_and_said(tmp_path: Path) -> None:
    spool = spool_of_a_host(tmp_path, 0, 1)
    (spool / "00000000000000000001-7-abc-000000.spool").write_bytes(b"BUBSPOOL cut off")
    done = bubblescope("merge", spool.name, cwd=tmp_path)
    assert done.returncode == 4
    assert done.stderr.splitlines() == [
        "bubblescope: files: they are not spool files, or cut off within their header; the rest is written"
    ]
    assert microbatches(tmp_path / "host0.json") == [1, 2]
