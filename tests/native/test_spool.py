"""The C spool writer keeps what docs/spool-format.md promises, under the sanitizers too."""

from __future__ import annotations

import signal
import stat
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from bubblescope.collectors._bubblescope_inject import layout
from bubblescope.native.libraries import FOLDER
from bubblescope.record.assemble import traces_of
from bubblescope.record.spool import Process, read_spool
from bubblescope.trace.model import Device
from tests.native.spool_program import SANITIZERS, compiled, run


@pytest.fixture(scope="module", params=list(SANITIZERS))
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("program"), request.param)


def processes_of(spool: Path) -> list[Process]:
    processes, unreadable = read_spool(str(spool))
    assert unreadable == []
    return processes


def test_every_type_of_event_is_read_as_it_was_written(program: Path, tmp_path: Path) -> None:
    assert run(program, tmp_path, "everything") == 0
    (trace,) = traces_of(str(tmp_path))
    (device,) = trace.run.devices
    assert device == Device(0, 0, 3, "CUDA0", device.host, "9.0", 1 << 30)
    assert trace.run.engine == "llama.cpp"
    assert trace.run.facts["a long one"] == "x" * 198
    columns = [
        "step",
        "microbatch",
        "kind",
        "bytes",
        "begin_ns",
        "end_ns",
        "tokens",
        "prefix",
        "peer",
        "clock",
    ]
    assert trace.spans[columns].to_numpy().tolist() == [
        [5, 9, "copy", 4096, 100, 250, 512, 1024, 1, "device"],
        [5, 9, "copy", 4096, 100, 300, 512, 1024, 1, "device"],
    ]
    assert trace.requests.iloc[0].tolist() == ["r1", 1000, 2000, 3000, 77, 8, False]
    assert trace.slices[["name", "begin_ns"]].to_numpy().tolist() == [["graph reused", 4000]]
    assert trace.counters[["name", "time_ns", "value"]].to_numpy().tolist() == [["queue", 5000, 2.5]]
    assert [lost.why for lost in trace.run.lost] == ["they had not ended: copy of microbatch 10 on stage 0"]


def test_what_cannot_be_is_counted_and_not_written(program: Path, tmp_path: Path) -> None:
    assert run(program, tmp_path, "refused") == 0
    (process,) = processes_of(tmp_path)
    assert (len(process.spans), len(process.open_spans), process.lost["refused"]) == (0, 0, 3)


def test_threads_write_at_once_and_none_loses_an_event(program: Path, tmp_path: Path) -> None:
    # GIVEN 8 threads with 2000 spans and 2000 instants each, of 50 names: more than the first files hold
    assert run(program, tmp_path, "threads", "2000") == 0
    (process,) = processes_of(tmp_path)
    assert sorted(process.spans["microbatch"].tolist()) == list(range(16_000))
    names = Counter(process.texts[text] for text in process.instants["name"].tolist())
    assert names == {f"instant {number}": 8 * 40 for number in range(50)}
    assert set(process.lost.values()) == {0}


def test_all_that_was_written_before_a_sigkill_is_there(program: Path, tmp_path: Path) -> None:
    assert run(program, tmp_path, "killed", "3000") == -signal.SIGKILL
    (process,) = processes_of(tmp_path)
    assert process.spans["microbatch"].tolist() == list(range(3000))
    assert (process.running, set(process.lost.values())) == (False, {0})


def test_a_forked_child_writes_files_of_its_own(program: Path, tmp_path: Path) -> None:
    assert run(program, tmp_path, "fork") == 0
    parent, child = processes_of(tmp_path)
    assert parent.pid != child.pid
    assert parent.spans["microbatch"].tolist() == [0, 2]
    assert child.spans["microbatch"].tolist() == [1]
    assert (len(parent.open_spans), len(child.open_spans)) == (0, 0)


def test_the_folder_stays_within_its_bound_and_the_rest_is_counted(program: Path, tmp_path: Path) -> None:
    # GIVEN room for about 15,000 slots, and three times as many events
    bound = 1_000_000
    assert run(program, tmp_path, "threads", "3000", BUBBLESCOPE_SPOOL_MAX_BYTES=bound) == 0
    files = list(tmp_path.glob("*.spool"))
    assert sum(path.stat().st_size for path in files) <= bound
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    (process,) = processes_of(tmp_path)
    assert process.begins_ns is not None
    # Dropped are whole files of 255 slots, texts and stages among them. On a busy machine a thread may
    # give up waiting for the one that opens the next file; then its event is counted as unwritten.
    kept = len(process.spans) + len(process.instants)
    assert process.lost["dropped"] >= 48_000 - kept - process.lost["unwritten"] > 0
    assert {process.lost[reason] for reason in ("refused", "torn", "damaged")} == {0}


def test_a_folder_that_is_not_there_harms_nobody(program: Path, tmp_path: Path) -> None:
    assert run(program, tmp_path / "gone", "everything") == 0


@pytest.mark.parametrize(("blocks", "files"), [(40, 1), (2, 0)])  # of 512 or 1024 bytes, as the shell has it
def test_a_limit_on_the_size_of_files_does_not_kill_the_process(
    program: Path, tmp_path: Path, blocks: int, files: int
) -> None:
    # A first file is 64 KiB, and 16 KiB where there is no more room.
    limited = f'ulimit -f {blocks}; exec "$0" everything'
    assert run(Path("/bin/sh"), tmp_path, "-c", limited, str(program)) == 0
    assert len(list(tmp_path.iterdir())) == files


def test_nothing_is_written_unless_asked_for_or_without_an_event(program: Path, tmp_path: Path) -> None:
    assert run(program, None, "idle") == 3
    assert run(program, tmp_path, "idle") == 0
    assert list(tmp_path.iterdir()) == []


def test_the_interface_is_one_of_cpp_too() -> None:
    command = [
        "c++",
        "-std=c++17",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fsyntax-only",
        f"-I{FOLDER}",
        "-x",
        "c++",
        "-",
    ]
    program = '#include "spool.h"\nint main() { return spool_start() ? 0 : 1; }\n'
    assert subprocess.run(command, input=program, text=True).returncode == 0


def test_the_header_and_the_structures_are_those_of_the_format() -> None:
    # The program fills in the structures; what the reader takes them for is checked by the tests above.
    assert (layout.HEADER.size, layout.SPAN_SLOT.size) == (192, layout.SLOT)
