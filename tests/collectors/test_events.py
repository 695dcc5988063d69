"""What an engine tells the collector is what the spool holds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bubblescope.collectors._bubblescope_inject import layout
from bubblescope.trace import frames
from tests.collectors.programs import COLLECTORS, processes_of, recorded, run_program


def test_a_span_keeps_every_field(tmp_path: Path) -> None:
    process = recorded(
        """
        stage = recorder.stage(3, layers=(20, 30), rank=7, ordinal=1, device="GPU é", capability="9.0",
                               memory_bytes=2**40)
        before = time.monotonic_ns()
        with stage.span("recv", phase="prefill", step=2**40, microbatch=2**41, tokens=4096, prefix=180_000,
                        peer=2) as span:
            span.bytes = 2**33
        after = time.monotonic_ns()
        recorder.fact("between", [before, after])
        """,
        tmp_path,
    )
    (span,) = process.spans
    told = {name: span[name] for name in ("step", "microbatch", "tokens", "prefix", "bytes", "peer")}
    assert told == {
        "step": 2**40, "microbatch": 2**41, "tokens": 4096, "prefix": 180_000, "bytes": 2**33, "peer": 2,
    }  # fmt: skip
    assert (layout.KINDS[span["kind"]], layout.PHASES[span["phase"]]) == ("recv", "prefill")
    assert (span["layer_begin"], span["layer_end"]) == (20, 30)
    stage = process.stages[span["stage"]]
    assert stage == (3, 7, 1, (20, 30), "GPU é", "9.0", 2**40)
    before, after = (int(number) for number in process.facts["between"][1].strip("[]").split(","))
    assert before <= span["begin_ns"] <= span["end_ns"] <= after


def test_the_numbers_of_kinds_phases_and_clocks_are_those_of_the_model() -> None:
    assert (layout.KINDS, layout.PHASES, layout.CLOCKS) == (frames.SPAN_KINDS, frames.PHASES, frames.CLOCKS)


def test_a_span_may_begin_and_end_in_different_threads(tmp_path: Path) -> None:
    process = recorded(
        """
        span = recorder.stage(0).span("send", microbatch=5).begin()
        thread = threading.Thread(target=span.end)
        thread.start(), thread.join()
        """,
        tmp_path,
    )
    assert process.spans["microbatch"].tolist() == [5]
    assert len(process.open_spans) == 0


def test_a_second_end_changes_nothing(tmp_path: Path) -> None:
    process = recorded(
        """
        with recorder.stage(0).span("forward", microbatch=1) as span:
            span.end()
            recorder.fact("ended_before", time.monotonic_ns())
            span.microbatch = 2
        """,
        tmp_path,
    )
    (span,) = process.spans
    assert span["microbatch"] == 1
    assert span["end_ns"] <= int(process.facts["ended_before"][1])


def test_instants_counters_requests_and_facts(tmp_path: Path) -> None:
    process = recorded(
        """
        stage = recorder.stage(0)
        stage.instant("graph captured")
        stage.counter("sm_clock_mhz", 1980.5)
        recorder.request_arrived("chat-1", prompt_tokens=32_000, warmup=True)
        recorder.request_first_token("chat-1")
        recorder.request_ended("chat-1", output_tokens=3)
        recorder.fact("model", {"layers": 36})
        recorder.fact("model", {"layers": 40})
        """,
        tmp_path,
    )
    (instant,) = process.instants
    (sample,) = process.samples
    assert process.texts[instant["name"]] == "graph captured"
    assert (process.texts[sample["name"]], sample["value"]) == ("sm_clock_mhz", 1980.5)
    events = [(r["event"], r["tokens"], bool(r["warmup"])) for r in process.requests]
    assert events == [
        (layout.ARRIVED, 32_000, True), (layout.FIRST_TOKEN, -1, False), (layout.ENDED, 3, False),
    ]  # fmt: skip
    assert {process.texts[r["request"]] for r in process.requests} == {"chat-1"}
    assert sorted(process.requests["time_ns"]) == process.requests["time_ns"].tolist()
    assert process.facts["model"][1] == '{"layers": 40}'


def test_long_texts_survive_and_too_long_ones_are_cut(tmp_path: Path) -> None:
    process = recorded(
        """
        recorder.request_arrived("é" * 300)
        recorder.request_arrived("x" * 5000)
        """,
        tmp_path,
    )
    assert process.texts == ("é" * 300, "x" * layout.LONGEST_NAME)


def test_without_a_spool_folder_nothing_happens(tmp_path: Path) -> None:
    # GIVEN an instrumented engine / WHEN it runs without the variable / THEN it writes no file at all
    done = run_program(
        f"""
        os.chdir({str(tmp_path)!r})
        stage = recorder.stage(0, layers=(0, 4))
        with stage.span("forward") as span:
            span.tokens = 4
        stage.span("send").begin().end()
        stage.instant("x"), stage.counter("x", 1)
        recorder.fact("engine", "mine"), recorder.request_arrived("r")
        """,
        spool=None,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


def test_importing_it_loads_only_the_standard_library() -> None:
    loaded = subprocess.run(
        [sys.executable, "-S", "-c", "import sys, _bubblescope_inject; print(*sys.modules)"],
        env={"PYTHONPATH": str(COLLECTORS)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    ours = {name for name in loaded if name.startswith("_bubblescope_inject")}
    foreign = {name.partition(".")[0] for name in set(loaded) - ours} - set(sys.stdlib_module_names)
    assert ours and foreign <= {"__main__"}


@pytest.mark.parametrize(
    "call",
    [
        "stage.span('no such kind').begin().end()",
        "stage.span('forward', phase='no such phase').begin().end()",
        "stage.span('forward', tokens='many').begin().end()",
        "stage.span('forward', tokens=2**31).begin().end()",
        "stage.span('forward', step=None).begin().end()",
        "stage.counter('x', 'high')",
        "recorder.request_arrived('r', prompt_tokens=2**70)",
        "recorder.fact('x', object())",
        "recorder.fact('x', float('nan'))",
        "recorder.fact('x', 'y' * 70_000)",
        "[recorder.fact(str(number), number) for number in range(257)]",
        "recorder.stage(2**40)",
        "recorder.stage('first')",
        "recorder.stage(1, layers=5)",
        "recorder.stage(1, layers=(0, 1, 2))",
        "recorder.stage(1, layers=('a', 'b'))",
        "recorder.request_arrived('r', at_ns='now')",
        "stage.counter([], 1)",
        "stage.part(None).span('layer').begin().end()",
    ],
)
def test_wrong_values_never_raise_and_are_counted(call: str, tmp_path: Path) -> None:
    # GIVEN an engine that tells something impossible between two good spans
    process = recorded(
        f"""
        stage = recorder.stage(0)
        stage.span("forward", microbatch=1).begin().end()
        {call}
        stage.span("forward", microbatch=2).begin().end()
        """,
        tmp_path,
    )
    # THEN that event alone is missing, and it is neither torn nor open
    assert process.spans["microbatch"].tolist() == [1, 2]
    assert len(process.open_spans) == 0
    assert process.lost == {**dict.fromkeys(process.lost, 0), "refused": 1}


def test_every_event_of_a_stage_that_could_not_be_declared_is_counted(tmp_path: Path) -> None:
    process = recorded(
        """
        bad, good = recorder.stage(2**40), recorder.stage(0)
        with bad.span("forward"):
            pass
        bad.instant("x")
        good.instant("y")
        """,
        tmp_path,
    )
    assert (len(process.spans), len(process.instants), process.lost["refused"]) == (0, 1, 3)


@pytest.mark.parametrize("folder", ["missing", "a file"])
def test_a_spool_folder_that_is_none_harms_nobody(folder: str, tmp_path: Path) -> None:
    (tmp_path / "a file").write_text("")
    done = run_program(
        """
        stage = recorder.stage(0)
        for microbatch in range(1000):
            with stage.span("forward", microbatch=microbatch):
                pass
        stage.instant("x"), recorder.request_arrived("r"), recorder.fact("x", 1)
        print("done")
        """,
        spool=tmp_path / folder,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_nvtx_ranges_named_for_their_spans_where_nvtx_is_loaded(tmp_path: Path) -> None:
    pytest.importorskip("nvtx")
    done = run_program(
        """
        import nvtx
        domain, told = nvtx.get_domain("bubblescope"), []
        class Spy:
            def get_event_attributes(self, message, payload):
                return message, domain.get_event_attributes(message=message, payload=payload)
            def start_range(self, attributes):
                told.append(attributes[0])
                return attributes[0], domain.start_range(attributes[1])
            def end_range(self, started):
                told.append("/" + started[0])
                domain.end_range(started[1])
        nvtx.get_domain = lambda name: Spy()
        stage = recorder.stage(0)
        with stage.span("recv"):
            with stage.span("forward"):
                pass
        print(*told, sep=", ")
        """,
        tmp_path,
    )
    told = "recv stage=0, forward stage=0, /forward stage=0, /recv stage=0\n"
    assert (done.stdout, done.stderr) == (told, "")
    (process,) = processes_of(tmp_path)
    assert len(process.spans) == 2


def test_a_torch_without_nvtx_is_left_alone(tmp_path: Path) -> None:
    # GIVEN what torch does where it was built without CUDA, and what another version may lack
    process = recorded(
        """
        from types import SimpleNamespace
        def not_installed(*_):
            raise RuntimeError("NVTX functions not installed")
        nvtx = SimpleNamespace(range_start=not_installed, range_end=not_installed)
        for torch in (SimpleNamespace(cuda=SimpleNamespace(nvtx=nvtx)), SimpleNamespace()):
            sys.modules["torch"] = torch
            with recorder.stage(0).span("forward"):
                pass
        """,
        tmp_path,
    )
    assert len(process.spans) == 2


def test_it_neither_loads_nvtx_nor_needs_it(tmp_path: Path) -> None:
    done = run_program("recorder.stage(0); print('nvtx' in sys.modules, 'torch' in sys.modules)", tmp_path)
    assert done.stdout == "False False\n"


def test_work_measured_by_its_device_keeps_the_device_s_times(tmp_path: Path) -> None:
    process = recorded(
        """
        stage = recorder.stage(1, layers=(4, 8))
        stage.measured("forward", 2**60 + 1, 2**60 + 3, phase="decode", step=9,
                       microbatch=9, tokens=1, prefix=64)
        """,
        tmp_path,
    )
    (span,) = process.spans
    assert (span["begin_ns"], span["end_ns"], span["clock"]) == (2**60 + 1, 2**60 + 3, 0)
    assert (layout.KINDS[span["kind"]], layout.PHASES[span["phase"]]) == ("forward", "decode")
    assert (span["step"], span["tokens"], span["prefix"]) == (9, 1, 64)
    assert (span["layer_begin"], span["layer_end"]) == (4, 8)


def test_a_restarted_span_leaves_out_what_was_before(tmp_path: Path) -> None:
    process = recorded(
        """
        with recorder.stage(0).span("forward") as span:
            time.sleep(0.02)
            before = time.monotonic_ns()
            span.restart()
        recorder.fact("before", before)
        """,
        tmp_path,
    )
    assert int(process.facts["before"][1]) <= process.spans["begin_ns"][0]


def test_a_request_may_have_arrived_earlier(tmp_path: Path) -> None:
    process = recorded('recorder.request_arrived("a", prompt_tokens=5, at_ns=123)', tmp_path)
    assert process.requests["time_ns"].tolist() == [123]
