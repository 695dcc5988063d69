"""What is left of a recording when processes die, fork, race, or have no room."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bubblescope.collectors._bubblescope_inject import layout
from tests.collectors.programs import processes_of, recorded, run_program


def spool_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.spool"))


def test_all_that_was_written_before_a_sigkill_is_there(tmp_path: Path) -> None:
    # GIVEN a process that kills itself in the middle of a receive
    done = run_program(
        """
        stage = recorder.stage(1)
        for microbatch in range(1000):
            with stage.span("forward", microbatch=microbatch):
                pass
        stage.span("recv", microbatch=1000, peer=0).begin()
        os.kill(os.getpid(), signal.SIGKILL)
        """,
        tmp_path,
    )
    assert done.returncode == -signal.SIGKILL
    # THEN every span before it is there, and the one that had not ended is known
    (process,) = processes_of(tmp_path)
    assert process.spans["microbatch"].tolist() == list(range(1000))
    (waiting,) = process.open_spans
    assert (layout.KINDS[waiting["kind"]], waiting["microbatch"], waiting["peer"]) == ("recv", 1000, 0)
    assert set(process.lost.values()) == {0}


def test_a_torn_slot_costs_that_event_only(tmp_path: Path) -> None:
    recorded(
        """
        stage = recorder.stage(0)
        for microbatch in range(5):
            stage.span("forward", microbatch=microbatch).begin().end()
        """,
        tmp_path,
    )
    (path,) = spool_files(tmp_path)
    data = bytearray(path.read_bytes())
    # Text (""), stage, then five spans; a writer killed in the last two has not stored their states.
    for slot in (4, 6):
        data[layout.HEADER_SIZE + slot * layout.SLOT + layout.SLOT - 1] = layout.EMPTY
    path.write_bytes(data)
    (process,) = processes_of(tmp_path)
    assert process.spans["microbatch"].tolist() == [0, 1, 3]
    assert process.lost["torn"] == 2


def test_a_forked_child_writes_a_file_of_its_own(tmp_path: Path) -> None:
    # GIVEN a process that forks in the middle of a span, with another span made but not begun
    done = run_program(
        """
        stage = recorder.stage(4, rank=2)
        recorder.fact("engine", "mine")
        made = stage.span("send", microbatch=1)
        with stage.span("forward", microbatch=0):
            if os.fork() == 0:
                made.begin().end()
                stage.span("send", microbatch=2).begin().end()
            else:
                os.wait()
        """,
        tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")
    parent, child = processes_of(tmp_path)
    # THEN the parent's span is its own, and the child knows the same stages and facts
    assert parent.spans["microbatch"].tolist() == [0]
    (forward,) = parent.spans
    assert sorted(child.spans["microbatch"]) == [1, 2]
    assert forward["end_ns"] > child.spans["end_ns"].max()
    assert child.stages == parent.stages
    assert child.facts == parent.facts
    assert child.pid != parent.pid


def test_spawned_children_record_too(tmp_path: Path) -> None:
    script = tmp_path / "engine.py"
    script.write_text(
        "import multiprocessing\n"
        "import _bubblescope_inject as recorder\n"
        "def work(number):\n"
        "    with recorder.stage(number).span('forward', microbatch=number):\n"
        "        pass\n"
        "if __name__ == '__main__':\n"
        "    context = multiprocessing.get_context('spawn')\n"
        "    children = [context.Process(target=work, args=(number,)) for number in range(3)]\n"
        "    [child.start() for child in children], [child.join() for child in children]\n"
    )
    spool = tmp_path / "spool"
    spool.mkdir()
    done = run_program(f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')", spool)
    assert done.stderr == ""
    assert sorted(int(s["microbatch"]) for p in processes_of(spool) for s in p.spans) == [0, 1, 2]


def test_threads_and_signal_handlers_do_not_disturb_each_other(tmp_path: Path) -> None:
    # GIVEN four threads that record at once while a signal handler does, over many files
    process = recorded(
        """
        sys.setswitchinterval(1e-5)
        stage = recorder.stage(0)
        handled = []
        def handle(*_):
            handled.append(stage.span("sync", microbatch=len(handled)).begin().end())
        signal.signal(signal.SIGALRM, handle)
        signal.setitimer(signal.ITIMER_REAL, 1e-4, 1e-4)
        def work(first):
            for microbatch in range(first, first + 5000):
                with stage.span("forward", microbatch=microbatch):
                    pass
        threads = [threading.Thread(target=work, args=(number * 5000,)) for number in range(4)]
        [thread.start() for thread in threads], [thread.join() for thread in threads]
        signal.setitimer(signal.ITIMER_REAL, 0)
        recorder.fact("handled", len(handled))
        """,
        tmp_path,
    )
    spans = process.spans
    threads = spans[spans["kind"] == layout.KINDS.index("forward")]
    handler = spans[spans["kind"] == layout.KINDS.index("sync")]
    lost = process.lost["unwritten"]
    # THEN every event is there once (or was counted: a handler must not wait for its own thread)
    assert len(set(threads["microbatch"].tolist())) == len(threads)
    assert len(threads) + len(handler) + lost == 20_000 + int(process.facts["handled"][1])
    # Who opens the next file may lose the processor; the others do not wait for it for long.
    assert lost < 200
    assert len(process.open_spans) == process.lost["torn"] == process.lost["damaged"] == 0


def test_a_bounded_folder_stays_bounded_and_counts_what_went(tmp_path: Path) -> None:
    # GIVEN a bound of 1 MiB, so files of 16 KiB: 252 slots, of which a text and a stage are two
    bound, spans_per_file = 1 << 20, 250
    process = recorded(
        """
        stage = recorder.stage(0)
        for microbatch in range(50_000):
            with stage.span("forward", microbatch=microbatch):
                pass
        """,
        tmp_path,
        BUBBLESCOPE_SPOOL_MAX_BYTES=bound,
    )
    assert sum(path.stat().st_size for path in spool_files(tmp_path)) <= bound
    # THEN the newest spans are there without a gap, and the others were counted, slot by slot
    kept = process.spans["microbatch"].tolist()
    assert kept == list(range(50_000 - len(kept), 50_000))
    assert len(kept) > 60 * spans_per_file
    files_gone = (50_000 - len(kept)) // spans_per_file
    assert process.lost["dropped"] == files_gone * 252
    assert process.begins_ns is not None and process.begins_ns <= process.spans["begin_ns"].min()


def test_the_oldest_go_first_whoever_wrote_them(tmp_path: Path) -> None:
    # GIVEN a process that ended long ago, with 100 spans, and one that fills the folder
    code = """
        stage = recorder.stage({stage})
        for microbatch in range({count}):
            stage.span("forward", microbatch=microbatch).begin().end()
        """
    recorded(code.format(stage=0, count=100), tmp_path)
    done = run_program(code.format(stage=1, count=50_000), tmp_path, BUBBLESCOPE_SPOOL_MAX_BYTES=1 << 20)
    assert done.returncode == 0
    # THEN the first one's only file has gone, and the other counted its 100 spans, text and stage
    (process,) = processes_of(tmp_path)
    gone = 50_000 - len(process.spans)
    assert process.stages[0].stage == 1
    assert process.lost["dropped"] == gone // 250 * 252 + 102


def test_a_file_that_is_still_written_to_stays(tmp_path: Path) -> None:
    done = run_program(
        """
        quiet, busy = recorder.stage(0), recorder.stage(1)
        quiet.span("forward", microbatch=7).begin().end()
        if os.fork() == 0:
            for microbatch in range(50_000):
                busy.span("forward", microbatch=microbatch).begin().end()
            os._exit(0)
        os.wait()
        quiet.span("forward", microbatch=8).begin().end()
        """,
        tmp_path,
        BUBBLESCOPE_SPOOL_MAX_BYTES=1 << 20,
    )
    assert done.returncode == 0
    first = processes_of(tmp_path)[0]
    assert first.spans["microbatch"].tolist() == [7, 8]


def test_what_is_older_than_asked_goes(tmp_path: Path) -> None:
    # GIVEN files of 16 KiB (250 spans), the first ones over a second older than the last ones
    process = recorded(
        """
        stage = recorder.stage(0)
        def work(first):
            for microbatch in range(first, first + 1000):
                stage.span("forward", microbatch=microbatch).begin().end()
        work(0)
        time.sleep(1.5)
        work(1000)
        """,
        tmp_path,
        BUBBLESCOPE_SPOOL_MAX_BYTES=1 << 20,
        BUBBLESCOPE_SPOOL_KEEP_SECONDS=1,
    )
    # THEN the files before the pause have gone, but for the one that was open over it
    assert process.spans["microbatch"].min() == 750
    assert process.spans["microbatch"].max() == 1999
    assert process.lost["dropped"] == 3 * 252


def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    recorded("recorder.fact('x', 1)", tmp_path)
    (path,) = spool_files(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk of its own of 512 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k,mode=700", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("a small disk of its own needs root and a mount")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_costs_only_the_events_it_has_no_room_for(small_disk: Path) -> None:
    # GIVEN a disk that fills up, and is freed again later
    done = run_program(
        """
        stage = recorder.stage(0)
        def work(first):
            for microbatch in range(first, first + 20_000):
                stage.span("forward", microbatch=microbatch).begin().end()
        work(0)
        spool = os.environ["BUBBLESCOPE_SPOOL"]
        os.unlink(os.path.join(spool, sorted(os.listdir(spool))[0]))
        time.sleep(1.2)
        work(20_000)
        print("the engine goes on")
        """,
        small_disk,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "the engine goes on\n", "")
    (process,) = processes_of(small_disk)
    first_file = ((64 << 10) - 256) // 64 - 2
    assert process.lost["unwritten"] > 0
    assert len(process.spans) + first_file + process.lost["unwritten"] == 40_000
    assert process.spans["microbatch"].max() >= 20_000


def limited(limit: str, most: int) -> str:
    """A program that records before and after the system has no more of something for it."""
    return f"""
        import resource
        stage = recorder.stage(0)
        def work(first):
            for microbatch in range(first, first + 3000):
                stage.span("forward", microbatch=microbatch).begin().end()
        work(0)
        before = resource.getrlimit(resource.{limit})
        resource.setrlimit(resource.{limit}, ({most}, before[1]))
        work(3000)
        resource.setrlimit(resource.{limit}, before)
        time.sleep(1.1)
        work(6000)
        print(len(os.listdir("/proc/self/fd")) < 20, threading.active_count())
        """


@pytest.mark.parametrize(
    ("limit", "most"), [("RLIMIT_NOFILE", 3), ("RLIMIT_AS", 1), ("RLIMIT_FSIZE", 1), ("RLIMIT_NPROC", 0)]
)
def test_what_the_system_denies_costs_events_and_no_more(limit: str, most: int, tmp_path: Path) -> None:
    """Descriptors, memory for the mapping, room in a file, threads."""
    done = run_program(limited(limit, most), tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True 1\n", "")
    (process,) = processes_of(tmp_path)
    assert len(process.spans) + process.lost["unwritten"] == 9000
    assert {0, 6000, 8999} <= set(process.spans["microbatch"].tolist())
    assert (process.lost["unwritten"] > 0) == (limit != "RLIMIT_NPROC")


def test_a_spool_folder_that_goes_away_takes_no_more_with_it_than_its_events(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    done = run_program(
        """
        import shutil
        stage = recorder.stage(0)
        spool = os.environ["BUBBLESCOPE_SPOOL"]
        for turn in range(3):
            for microbatch in range(3000):
                stage.span("forward", microbatch=microbatch).begin().end()
            shutil.rmtree(spool, ignore_errors=True)
        os.mkdir(spool)
        time.sleep(1.1)
        for microbatch in range(3000):
            stage.span("send", microbatch=microbatch).begin().end()
        """,
        spool,
    )
    assert (done.returncode, done.stderr) == (0, "")
    (process,) = processes_of(spool)
    # Some went into the file that was open when the folder went, and so did their count.
    assert process.spans["microbatch"].max() == 2999
    assert process.lost["unwritten"] > 0


def test_a_host_whose_name_is_no_utf8_records(tmp_path: Path) -> None:
    process = recorded(
        """
        import socket
        socket.gethostname = lambda: os.fsdecode(bytes([103, 255, 254]))
        recorder.stage(0).instant("here")
        """,
        tmp_path,
    )
    assert process.host == "g\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}"
    assert len(process.instants) == 1


def test_what_happens_as_the_interpreter_ends_is_written_or_nothing(tmp_path: Path) -> None:
    """In exit functions, finalisers, and threads that are still at it."""
    process = recorded(
        """
        import atexit, weakref
        stage = recorder.stage(0)
        def tell(name):
            stage.instant(name)
            recorder.fact(name, 1)
            with stage.span("sync"):
                pass
        class Engine:
            def __del__(self):
                tell("finalised")
        atexit.register(tell, "at exit")
        sys.engine = Engine()
        weakref.finalize(Engine, tell, "collected")
        def work():
            while True:
                with stage.span("forward"):
                    pass
        for _ in range(3):
            threading.Thread(target=work, daemon=True).start()
        """,
        tmp_path,
    )
    assert {"at exit", "collected"} <= process.facts.keys()
    assert process.lost["damaged"] == 0
