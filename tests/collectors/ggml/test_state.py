"""Copies of a sequence's state between the devices and host memory, as a program of libllama makes them."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from bubblescope.collectors._bubblescope_inject import layout
from bubblescope.native.build import build
from bubblescope.native.libraries import LIBRARIES
from bubblescope.record.spool import read_spool
from bubblescope.trace.model import Trace
from tests.collectors.ggml.running import (
    Programs,
    arguments,
    compiled,
    environment,
    fake_tools,
    of_kind,
    recorded,
    sanitizing,
)
from tests.engines.llamacpp.running import installed

pytestmark = installed

#: Of a token in the KV cache: keys and values of 8 layers, 32 numbers of 2 bytes each.
PER_TOKEN = 8 * 2 * 32 * 2
#: For how long the program makes room for a state.
ROOM_NS = 20_000_000


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    return compiled(tmp_path_factory.mktemp("programs"))


@pytest.fixture(scope="module")
def trace(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """1024 tokens and one; saved and restored by the older functions, and by the newer ones in a thread of
    their own; one token more; saved, and a state that is cut short not restored."""
    return recorded(programs, tmp_path_factory.mktemp("spool"), *arguments(programs), STATE_COPIES="1")


def test_each_copy_is_told_once_with_its_bytes(trace: Trace) -> None:
    # GIVEN older functions that call the newer ones
    saves, restores = of_kind(trace, "save"), of_kind(trace, "restore")
    assert (len(saves), len(restores)) == (3, 2)
    one, same, larger = saves["bytes"].tolist()
    assert [one, same] == restores["bytes"].tolist()
    # THEN a state is the KV cache and some bytes for where each token is in its sequence
    for size, tokens in ((one, 1025), (larger, 1026)):
        assert tokens * PER_TOKEN <= size <= 1.05 * tokens * PER_TOKEN
    assert one == same


def test_a_copy_is_of_the_host_and_of_no_microbatch(trace: Trace) -> None:
    for kind in ("save", "restore"):
        spans = of_kind(trace, kind)
        for column, value in (("stage", 0), ("microbatch", -1), ("step", -1), ("tokens", -1), ("peer", -1)):
            assert set(spans[column]) == {value}
        assert (set(spans["clock"]), set(spans["phase"])) == ({"host"}, {"unknown"})


def test_making_room_is_part_of_saving_and_of_nothing_else(trace: Trace) -> None:
    saves, restores = of_kind(trace, "save"), of_kind(trace, "restore")
    lasted = (saves["end_ns"] - saves["begin_ns"]).tolist()
    assert min(lasted[:2]) >= ROOM_NS
    assert (restores["begin_ns"].to_numpy() >= saves["end_ns"].to_numpy()[:2]).all()
    # AND where a token came in between, room was not made for the state after it
    decode = of_kind(trace, "forward")["begin_ns"].max()
    assert saves["begin_ns"].max() >= decode


def test_what_is_read_for_a_copy_is_no_copy_of_a_ubatch(trace: Trace) -> None:
    copies, saves = of_kind(trace, "copy"), of_kind(trace, "save")
    for begin, end in zip(saves["begin_ns"], saves["end_ns"], strict=True):
        assert not ((copies["begin_ns"] >= begin) & (copies["end_ns"] <= end)).any()


def test_tools_are_told_what_a_copy_launches(programs: Programs, tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    recorded(programs, spool, *arguments(programs), STATE_COPIES="1", **fake_tools(tmp_path))
    # THEN each is a range, also the one that was cut short, and all are over
    lines = (tmp_path / "log").read_text().splitlines()[1:]
    copies = Counter(line for line in lines if "save" in line or "restore" in line)
    assert copies == {"push -1 save stage=0 rank=0": 3, "push -1 restore stage=0 rank=0": 3}
    assert sum(line.startswith("push") for line in lines) == lines.count("pop ")
    # AND the work launched within is theirs
    processes, _ = read_spool(str(spool))
    kinds = Counter(layout.KINDS[kind] for process in processes for kind in process.launches["kind"].tolist())
    assert (kinds["save"], kinds["restore"]) == (3, 3)


def test_without_a_recording_the_copies_are_what_they_were(programs: Programs, tmp_path: Path) -> None:
    variables = {"LD_PRELOAD": build(LIBRARIES["ggml"]), "TMPDIR": tmp_path, "STATE_COPIES": "1"}
    done = subprocess.run(
        [str(programs.decode), *arguments(programs)],
        env=environment(programs, **variables), capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr[-2000:]
    assert list(tmp_path.iterdir()) == []


def test_the_sanitizers_find_nothing(programs: Programs, tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    trace = recorded(programs, spool, *arguments(programs), STATE_COPIES="1", **sanitizing(tmp_path))
    assert (len(of_kind(trace, "save")), len(of_kind(trace, "restore"))) == (3, 2)
