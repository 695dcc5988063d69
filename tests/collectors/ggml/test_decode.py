"""What the preloaded library tells of libllama at work, held against what the fake GPUs logged themselves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from bubblescope.collectors._bubblescope_inject import layout
from bubblescope.native.build import build
from bubblescope.native.libraries import LIBRARIES
from bubblescope.record.assemble import traces_of
from bubblescope.record.spool import read_spool
from bubblescope.trace.model import Trace
from bubblescope.trace.nsys.spans import told_by
from tests.collectors.ggml.running import (
    Programs,
    arguments,
    compiled,
    environment,
    fake_cuda,
    fake_tools,
    of_kind,
    recorded,
    sanitizing,
)
from tests.engines.llamacpp.running import installed

pytestmark = installed

#: Bytes of the activations of a ubatch of 256 tokens: 64 numbers of 4 bytes each.
ACTIVATIONS = 256 * 64 * 4


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    return compiled(tmp_path_factory.mktemp("programs"))


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the fake GPUs wrote down of the run that `trace` records."""
    return tmp_path_factory.mktemp("log") / "devices"


@pytest.fixture(scope="module")
def trace(programs: Programs, log: Path, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """A prompt of 1024 tokens in ubatches of 256 over three devices, and one token after it."""
    spool = tmp_path_factory.mktemp("spool")
    return recorded(programs, spool, *arguments(programs), FAKE_GPU_LOG=log)


def logged(log: Path, device: str) -> list[tuple[int, int]]:
    lines = (line.split() for line in log.read_text().splitlines())
    return [(int(begin), int(end)) for name, what, begin, end in lines if (name, what) == (device, "compute")]


def test_the_stages_are_the_devices_that_hold_layers(trace: Trace) -> None:
    assert [(device.stage, device.name) for device in trace.run.devices] == [
        (0, "FAKE0"),
        (1, "FAKE1"),
        (2, "FAKE2"),
    ]
    # Of 8 layers and the output layer each device has three; the output layer is no layer.
    assert trace.run.partition == (3, 3, 2)
    assert trace.run.facts["llama_layer_devices"] == ["FAKE0"] * 3 + ["FAKE1"] * 3 + ["FAKE2"] * 2
    assert trace.run.facts["llama_output_device"] == "FAKE2"
    assert trace.run.facts["llama_embedding_device"] == "CPU"


def test_a_forward_has_its_device_its_layers_and_its_tokens(trace: Trace) -> None:
    forward = of_kind(trace, "forward").sort_values(["microbatch", "stage"])
    prompt = [(m, "prefill", 256, 256 * m, 0) for m in range(4)]
    expected = [
        (stage, *ubatch, *layers)
        for ubatch in [*prompt, (4, "decode", 1, 1024, 1)]
        for stage, layers in enumerate([(0, 3), (3, 6), (6, 8)])
    ]
    columns = ["stage", "microbatch", "phase", "tokens", "prefix", "step", "layer_begin", "layer_end"]
    assert list(forward[columns].itertuples(index=False, name=None)) == expected


def test_a_forward_lies_where_the_device_says_that_it_computed(trace: Trace, log: Path) -> None:
    forward = of_kind(trace, "forward")
    assert set(forward["clock"]) == {"device"}
    for stage in range(3):
        of_stage = forward[forward["stage"] == stage].sort_values("microbatch")
        truth = logged(log, f"FAKE{stage}")
        assert len(of_stage) == len(truth) == 5
        for (begin, end), row in zip(truth, of_stage.itertuples(), strict=True):
            # A thread of ours wakes up late on a busy machine; most of the time must be the same.
            common = min(end, row.end_ns) - max(begin, row.begin_ns)
            assert common > (end - begin) / 2


def test_activations_are_sent_and_received_once_per_ubatch(trace: Trace) -> None:
    sends, receives = of_kind(trace, "send"), of_kind(trace, "recv")
    expected = sorted(
        (m, stage, stage + 1, 256 if m == 4 else ACTIVATIONS) for m in range(5) for stage in (0, 1)
    )
    sent = sends[["microbatch", "stage", "peer", "bytes"]].itertuples(index=False, name=None)
    received = receives[["microbatch", "peer", "stage", "bytes"]].itertuples(index=False, name=None)
    assert sorted(sent) == expected
    assert sorted(received) == expected
    both = sends.merge(receives, left_on=["microbatch", "peer"], right_on=["microbatch", "stage"])
    # Again but for a thread that wakes up late.
    assert (both["end_ns_y"] >= both["begin_ns_x"]).mean() > 0.5


def test_what_the_cpu_does_is_told_beside_the_devices(trace: Trace) -> None:
    embed = of_kind(trace, "embed")
    assert set(embed["stage"]) == {0} and set(embed["clock"]) == {"host"}
    lookups = embed[embed["bytes"] >= 0].sort_values("microbatch")
    assert lookups["bytes"].tolist() == [ACTIVATIONS] * 4 + [256]
    assert (embed["bytes"] < 0).sum() == 5
    assert of_kind(trace, "schedule")["microbatch"].tolist() == [0, 1, 2, 3, 4]
    assert of_kind(trace, "sample")["stage"].tolist() == [2]
    # The mask of each ubatch goes to every device, and the logits come back from the last.
    copies = of_kind(trace, "copy")
    assert set(copies["peer"]) == {-1}
    masks = copies[(copies["microbatch"] == 3) & (copies["bytes"] == 1024 * 256 * 2)]
    assert masks["stage"].tolist() == [0, 1, 2]


def test_the_facts_say_what_was_run(trace: Trace) -> None:
    facts = trace.run.facts
    assert trace.run.engine == "llama.cpp"
    assert trace.run.model["layers"] == 8 and trace.run.model["hidden_size"] == 64
    assert (facts["chunk_tokens"], facts["batch_tokens"]) == (256, 1024)
    assert (facts["llama_splits"], facts["llama_copies"]) == (4, 4)
    assert (facts["llama_pipelining"], facts["llama_pipelining_lacks"]) == (True, [])
    assert facts["llama_device_times"] == {f"FAKE{number}": "events" for number in range(3)}
    assert trace.run.lost == ()


def test_an_uneven_split_is_seen(programs: Programs, tmp_path: Path) -> None:
    trace = recorded(programs, tmp_path, *arguments(programs, split="7,1,1"))
    assert trace.run.partition == (7, 1)  # the third device holds the output layer alone
    assert trace.run.facts["llama_output_device"] == "FAKE2"


@pytest.mark.parametrize(
    ("devices", "variables", "lacks"),
    [(1, {}, ["devices"]), (3, {"FAKE_GPU_SYNCHRONOUS": "1"}, ["events"])],
    ids=["one device", "no events"],
)
def test_it_is_told_why_nothing_is_pipelined(
    programs: Programs, tmp_path: Path, devices: int, variables: dict[str, str], lacks: list[str]
) -> None:
    trace = recorded(programs, tmp_path, *arguments(programs, devices), **variables)
    assert trace.run.facts["llama_pipelining"] is False
    assert trace.run.facts["llama_pipelining_lacks"] == lacks


def test_cuda_devices_tell_their_times_without_being_waited_for(programs: Programs, tmp_path: Path) -> None:
    # GIVEN the fake GPUs under the name of CUDA, and a fake of its driver
    gpus, driver = fake_cuda(tmp_path)
    spool = tmp_path / "spool"
    spool.mkdir()
    model, _, tokens, ubatch = arguments(programs)
    variables = {"GGML_BACKEND_PATH": gpus, "LD_PRELOAD": f"{build(LIBRARIES['ggml'])}:{driver}"}
    trace = recorded(programs, spool, model, "CUDA0,CUDA1,CUDA2", tokens, ubatch, **variables)
    assert trace.run.facts["llama_device_times"] == {f"CUDA{number}": "cuda events" for number in range(3)}
    assert trace.run.facts["device_clock_uncertainty_ns"] > 0
    assert trace.run.facts["uuid:2:2"] == "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"
    for kind, stages in (("forward", (0, 1, 2)), ("send", (0, 1)), ("recv", (1, 2))):
        spans = of_kind(trace, kind)
        assert sorted(spans[["stage", "microbatch"]].itertuples(index=False, name=None)) == [
            (stage, microbatch) for stage in stages for microbatch in range(5)
        ]
        assert set(spans["clock"]) == {"device"}


def test_a_program_killed_in_the_middle_leaves_what_it_did(programs: Programs, tmp_path: Path) -> None:
    log = tmp_path / "log"
    spool = tmp_path / "spool"
    spool.mkdir()
    variables = {"LD_PRELOAD": build(LIBRARIES["ggml"]), "BUBBLESCOPE_SPOOL": spool, "FAKE_GPU_LOG": log}
    process = subprocess.Popen(
        [str(programs.decode), *arguments(programs, tokens=16384)],
        env=environment(programs, **variables),
        stderr=subprocess.DEVNULL,
    )
    while not (log.exists() and len(logged(log, "FAKE2")) >= 5):
        assert process.poll() is None
    process.kill()
    assert process.wait() == -signal.SIGKILL
    (trace,) = traces_of(str(spool))
    # What the last device was done with is there, but for the last moment.
    assert len(of_kind(trace, "forward").query("stage == 2")) >= 4
    assert any("forward of microbatch" in lost.why for lost in trace.run.lost)


def test_a_library_loaded_into_python_is_recorded(programs: Programs, tmp_path: Path) -> None:
    # GIVEN libllama in a scope of its own, as Python packages load it, where RTLD_NEXT finds nothing
    words = ["decode", *arguments(programs)]
    script = (
        "import ctypes, sys\n"
        f"library = ctypes.CDLL({str(programs.as_library)!r})\n"
        "words = [word.encode() for word in sys.argv[1:]]\n"
        "sys.exit(library.main(len(words), (ctypes.c_char_p * len(words))(*words)))"
    )
    variables = {"LD_PRELOAD": build(LIBRARIES["ggml"]), "BUBBLESCOPE_SPOOL": tmp_path}
    done = subprocess.run(
        [sys.executable, "-c", script, *words],
        env=environment(programs, **variables),
        stderr=subprocess.DEVNULL,
    )
    assert done.returncode == 0
    (trace,) = traces_of(str(tmp_path))
    assert len(of_kind(trace, "forward")) == 15
    assert trace.run.partition == (3, 3, 2)


@pytest.mark.parametrize("nvtx", ["libnvToolsExt.so.1", "libnvtx3interop.so.1"])
def test_tools_that_see_kernels_are_told_which_split_launches_them(
    nvtx: str, programs: Programs, tmp_path: Path
) -> None:
    # GIVEN a tool that knows NVTX, of CUDA 12 or 13, and the library that records kernels, all fakes
    spool = tmp_path / "spool"
    spool.mkdir()
    recorded(programs, spool, *arguments(programs, tokens=256), **fake_tools(tmp_path, nvtx))
    domain, *lines = (tmp_path / "log").read_text().splitlines()
    assert domain == "domain bubblescope"
    # THEN each piece of work is a range by the name that a reader knows, with nothing else inside
    assert [line.split()[0] for line in lines] == ["push", "pop"] * (len(lines) // 2)
    ranges = [line.removeprefix("push ").split(" ", 1) for line in lines[::2]]
    first = "phase=prefill step=0 microbatch=0 tokens=256 prefix=0"
    assert ranges[0] == ["0", f"embed stage=0 rank=0 {first}"]
    forwards = [name for _, name in ranges if name.startswith("forward")]
    assert forwards[0] == f"forward stage=0 rank=0 layers=0-3 {first}"
    assert len(forwards) == 6 and all(told_by(name) for _, name in ranges)
    # AND its payload is the microbatch
    assert {(payload, f"microbatch={payload} " in name) for payload, name in ranges} == {
        ("0", True),
        ("1", True),
    }
    # AND the work that it launched lies between two positions of its own
    ((process,), _) = read_spool(str(spool))
    asked = process.launches[["after", "before"]].tolist()
    assert asked == [(at, at + 1) for at in range(1, 2 * len(asked), 2)]
    kinds = [(layout.KINDS[kind], stage) for kind, stage in process.launches[["kind", "stage"]].tolist()]
    counted = Counter(kind for kind in kinds if kind[0] != "copy")
    each = [("embed", 0), *(("forward", stage) for stage in (0, 1, 2)), ("send", 0), ("send", 1)]
    assert counted == dict.fromkeys(each, 2)
    assert kinds.count(("copy", 0)) == sum(name.startswith("copy stage=0") for _, name in ranges) > 0


def test_nothing_is_written_without_a_recording(programs: Programs, tmp_path: Path) -> None:
    variables = {"LD_PRELOAD": build(LIBRARIES["ggml"]), "TMPDIR": tmp_path}
    done = subprocess.run(
        [str(programs.decode), *arguments(programs)],
        env=environment(programs, **variables),
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout) == (0, "0\n")
    assert list(tmp_path.iterdir()) == []


def test_the_sanitizers_find_nothing(programs: Programs, tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    done = subprocess.run(
        [str(programs.decode), *arguments(programs)],
        env=environment(programs, BUBBLESCOPE_SPOOL=spool, **sanitizing(tmp_path)),
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr[-2000:]
    assert "runtime error" not in done.stderr
    (trace,) = traces_of(str(spool))
    assert len(of_kind(trace, "forward")) == 15


def test_behind_wrappers_the_program_alone_is_in_the_trace(programs: Programs, tmp_path: Path) -> None:
    trace_file = tmp_path / "trace.json"
    command = [
        "env",
        "A=1",
        "timeout",
        "100",
        "sh",
        "-c",
        f"{programs.decode} {' '.join(arguments(programs))}",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "bubblescope", "record", "-o", str(trace_file), "--", *command],
        env=environment(programs, PYTHONPATH=os.pathsep.join(filter(None, sys.path))),
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr[-2000:]
    assert "3 stages" in done.stderr.splitlines()[-1]
