"""The CUPTI injection, with a stub of CUPTI: what devices did is in the spool, whatever ends the process."""

from __future__ import annotations

import signal
from pathlib import Path

import numpy as np
import orjson
import pytest

from bubblescope.record.spool import Process, read_spool
from tests.collectors.cupti.stubs import Stubs, run, stubs, threads_program
from tests.native.spool_program import SANITIZERS
from tests.native.spool_program import run as run_program

_FIELDS = ["begin_ns", "end_ns", "work", "device", "stream", "bytes", "peer", "graph"]


@pytest.fixture(scope="module", params=[12, 13])
def cuda(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Stubs:
    return stubs(tmp_path_factory.mktemp("stubs"), request.param)


@pytest.fixture(scope="module")
def cuda13(tmp_path_factory: pytest.TempPathFactory) -> Stubs:
    return stubs(tmp_path_factory.mktemp("stubs"), 13)


def injected(spool: Path) -> Process:
    """What the injection of the only process wrote."""
    processes, unreadable = read_spool(str(spool))
    (own,) = (process for process in processes if "kernels:process" in process.facts)
    assert unreadable == []
    return own


def told(process: Process) -> dict[str, object]:
    fact: dict[str, object] = orjson.loads(process.facts["kernels:process"][1])
    return fact


def test_kernels_copies_and_memsets_are_told_as_they_were(cuda: Stubs, tmp_path: Path) -> None:
    code = """
    kernel(b"_Z3addi", 100, 250, device=1, stream=9, graph=44)
    cupti.stub_copy(1, 1, 4096, 0, 0, 300, 310)
    cupti.stub_copy(22, 10, 512, 0, 1, 320, 330)
    cupti.stub_copy(2, 0, 64, 0, 0, 340, 350)
    """
    assert run(cuda, tmp_path, code).returncode == 0
    process = injected(tmp_path)
    assert process.activities[_FIELDS].tolist() == [
        (100, 250, 0, 1, 9, -1, -1, 44),
        (300, 310, 1, 0, 7, 4096, -1, 0),
        (320, 330, 1, 0, 7, 512, 1, 0),
        (340, 350, 2, 0, 7, 64, -1, 0),
    ]
    names = [process.texts[text] for text in process.activities["name"].tolist()]
    assert names == ["add(int)", "Memcpy HtoD", "Memcpy PtoP", "Memset"]
    major = 12 if (cuda.folder / "libcupti.so.12").exists() else 13
    assert told(process) == {"cupti": major * 10000, "dropped": 0, "why_not": ""}


def test_each_device_that_works_is_described_once(cuda13: Stubs, tmp_path: Path) -> None:
    code = """
    for begin in range(1, 100):
        kernel(b"add", begin, begin + 1, device=1)
    """
    assert run(cuda13, tmp_path, code, RANK="3").returncode == 0
    facts = {name: orjson.loads(text) for name, (_, text) in injected(tmp_path).facts.items()}
    assert facts["kernels:device:1"] == {
        "name": "Stub 1", "capability": "9.0", "memory_bytes": 1 << 30, "uuid": "11" * 16, "rank": 3,
    }  # fmt: skip
    assert "kernels:device:0" not in facts


def test_more_than_one_buffer_holds_comes_whole_and_in_order(cuda13: Stubs, tmp_path: Path) -> None:
    # GIVEN 5000 kernels, where a buffer holds 303
    code = """
    for begin in range(1, 5001):
        kernel(b"add", begin, begin + 1)
    """
    assert run(cuda13, tmp_path, code).returncode == 0
    process = injected(tmp_path)
    assert process.activities["begin_ns"].tolist() == list(range(1, 5001))
    assert (np.diff(process.activities["correlation"].astype(int)) == 1).all()


def test_a_sigkill_costs_no_more_than_the_last_flush(cuda13: Stubs, tmp_path: Path) -> None:
    # GIVEN kernels that ended half a second before the process is killed
    code = """
    for begin in range(1, 101):
        kernel(b"add", begin, begin + 1)
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGKILL)
    """
    assert run(cuda13, tmp_path, code).returncode == -signal.SIGKILL
    assert injected(tmp_path).activities["begin_ns"].tolist() == list(range(1, 101))


def test_what_had_not_ended_is_told_once_it_has(cuda13: Stubs, tmp_path: Path) -> None:
    # GIVEN a kernel that runs while the injection flushes, and one that never ends
    code = """
    number = kernel(b"long", 100, 0)
    time.sleep(0.5)
    cupti.stub_end(number, 900)
    kernel(b"endless", 950, 0)
    """
    assert run(cuda13, tmp_path, code).returncode == 0
    process = injected(tmp_path)
    assert process.activities[["begin_ns", "end_ns"]].tolist() == [(100, 900)]


def test_positions_rise_with_every_launch(cuda13: Stubs, tmp_path: Path) -> None:
    code = """
    before = position()
    launched = kernel(b"add", 1, 2)
    after = position()
    assert before < launched < after, (before, launched, after)
    """
    done = run(cuda13, tmp_path, code)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_cupti_drops_is_counted(cuda13: Stubs, tmp_path: Path) -> None:
    code = """
    kernel(b"add", 1, 2)
    cupti.stub_drop(3)
    time.sleep(0.5)
    cupti.stub_drop(4)
    """
    assert run(cuda13, tmp_path, code).returncode == 0
    assert told(injected(tmp_path)) == {"cupti": 130000, "dropped": 7, "why_not": ""}


@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_threads_launch_at_once_and_nothing_is_lost(sanitizer: str, cuda13: Stubs, tmp_path: Path) -> None:
    # GIVEN 4 threads with 5000 kernels each, of 10 names, while what ended is being written
    assert run_program(threads_program(cuda13, sanitizer), tmp_path) == 0
    process = injected(tmp_path)
    streams, counts = np.unique(process.activities["stream"], return_counts=True)
    assert (streams.tolist(), counts.tolist()) == ([0, 1, 2, 3], [5000] * 4)
    assert len(np.unique(process.activities["correlation"])) == 20_000
    assert set(process.lost.values()) == {0}


@pytest.mark.parametrize(
    ("variable", "reason"),
    [("STUB_CUPTI_HELD", "another profiler holds CUPTI"), ("STUB_CUPTI_FAILS", "CUPTI_ERROR_STUB")],
)
def test_where_cupti_refuses_it_steps_back_and_says_why(
    variable: str, reason: str, cuda13: Stubs, tmp_path: Path
) -> None:
    code = """
    kernel(b"add", 1, 2)
    assert position() == 0
    """
    done = run(cuda13, tmp_path, code, **{variable: "1"})
    assert (done.returncode, done.stderr) == (0, "")
    process = injected(tmp_path)
    assert (len(process.activities), told(process)["why_not"]) == (0, reason)


def test_a_forked_child_leaves_the_devices_to_its_parent(cuda13: Stubs, tmp_path: Path) -> None:
    code = """
    kernel(b"add", 1, 2)
    child = os.fork()
    if child == 0:
        assert position() == 0
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
    kernel(b"add", 3, 4)
    """
    done = run(cuda13, tmp_path, code)
    assert (done.returncode, done.stderr) == (0, "")
    assert injected(tmp_path).activities["begin_ns"].tolist() == [1, 3]


def test_without_a_spool_nothing_is_done(cuda13: Stubs, tmp_path: Path) -> None:
    done = run(cuda13, tmp_path, "assert position() == 0", BUBBLESCOPE_SPOOL="")
    assert (done.returncode, done.stderr, list(tmp_path.iterdir())) == (0, "", [])


def test_with_a_driver_too_old_it_says_so(tmp_path: Path) -> None:
    # GIVEN a driver of CUDA 11, for which neither libcupti 12 nor 13 is made
    folder, spool = tmp_path / "stubs", tmp_path / "spool"
    folder.mkdir()
    spool.mkdir()
    done = run(stubs(folder, 13, driver=11), spool, 'kernel(b"add", 1, 2)')
    assert (done.returncode, done.stderr) == (0, "")
    reason = "no CUPTI library (libcupti.so.12 or .13) that goes with the driver was found"
    assert told(injected(spool)) == {"cupti": 0, "dropped": 0, "why_not": reason}


def test_the_cupti_that_the_process_has_loaded_comes_before_a_newer_one(tmp_path: Path) -> None:
    # GIVEN a program made for CUDA 12, with its CUPTI, on a machine whose driver and toolkit are newer
    made_for, newer, spool = tmp_path / "12", tmp_path / "13", tmp_path / "spool"
    for folder in (made_for, newer, spool):
        folder.mkdir()
    stubs(newer, 13)
    program = stubs(made_for, 12, driver=13)
    code = 'kernel(b"add", 1_000, 2_000)'
    assert run(program, spool, code, LD_LIBRARY_PATH=str(newer)).stderr == ""
    # THEN the driver is asked through the program's own
    assert str(told(injected(spool))["cupti"]).startswith("12")
