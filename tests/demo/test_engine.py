"""The embedded engine: it computes what it should, however it is cut, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from bubblescope.demo.__main__ import parsed
from bubblescope.demo.model import Part, Shape, prompt
from bubblescope.demo.schedule import CHUNK_TOKENS, REQUESTS, microbatches, next_chunk
from bubblescope.record.assemble import traces_of
from bubblescope.record.join import join
from bubblescope.trace.model import Trace

# Whoever runs the tests in the background ignores Ctrl-C, and so would every program started here.
signal.signal(signal.SIGINT, signal.default_int_handler)

MICROBATCHES = microbatches(REQUESTS)
DEMO = [sys.executable, "-m", "bubblescope.demo"]


def environment(partition: str, spool: Path | None = None) -> dict[str, str]:
    recording = {"BUBBLESCOPE_SPOOL": str(spool)} if spool is not None else {}
    return {**os.environ, "BUBBLESCOPE_DEMO_PARTITION": partition, **recording}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Trace]:
    """What the engine prints with three stages, and its recording."""
    spool = tmp_path_factory.mktemp("spool")
    done = subprocess.run(
        DEMO, env=environment("5,4,3", spool), capture_output=True, text=True, timeout=300, check=True
    )
    return done.stdout, join(traces_of(str(spool)))


def test_computing_in_chunks_and_parts_gives_what_computing_at_once_gives() -> None:
    shape = Shape(layers=3, context=96)
    tokens = prompt(shape, 1, 96)
    whole = Part(shape, 0, 3)
    expected = whole.head(whole.forward(whole.embed(tokens), 0))
    first, second = Part(shape, 0, 1), Part(shape, 1, 3)
    for prefix in range(0, 96, 32):
        passed_on = first.forward(first.embed(tokens[prefix : prefix + 32]), prefix)
        logits = second.head(second.forward(passed_on, prefix))
    np.testing.assert_allclose(logits, expected, rtol=1e-3, atol=1e-3)


def test_attention_sees_the_prefix_and_nothing_later() -> None:
    shape = Shape(layers=1, context=8)
    tokens = prompt(shape, 1, 8)
    changed_first, changed_last = tokens.copy(), tokens.copy()
    changed_first[0] += 1 - 2 * (changed_first[0] == shape.vocabulary - 1)
    changed_last[7] += 1 - 2 * (changed_last[7] == shape.vocabulary - 1)
    part = Part(shape, 0, 1)
    plain, first, last = (part.forward(part.embed(t), 0) for t in (tokens, changed_first, changed_last))
    assert not np.allclose(plain[1:], first[1:])
    np.testing.assert_allclose(plain[:7], last[:7], rtol=1e-4, atol=1e-5)


def test_chunks_cover_each_prompt() -> None:
    number = 0
    for request, size in enumerate(REQUESTS):
        prefix = 0
        while prefix < size:
            batch = next_chunk(number, request, size, prefix)
            assert (batch.number, batch.prefix, batch.last) == (number, prefix, prefix + batch.tokens == size)
            assert 0 < batch.tokens <= CHUNK_TOKENS
            prefix += batch.tokens
            number += 1
        assert prefix == size
    assert number == MICROBATCHES == 2 + 8 + 6 + 8


def test_the_answers_do_not_depend_on_the_partition(run: tuple[str, Trace]) -> None:
    alone = subprocess.run(DEMO, env=environment("12"), capture_output=True, text=True, timeout=300)
    assert alone.returncode == 0
    assert alone.stdout == run[0]
    assert len(run[0].splitlines()) == len(REQUESTS)


def test_one_core_for_all_stages_will_do(run: tuple[str, Trace]) -> None:
    core = str(min(os.sched_getaffinity(0)))
    done = subprocess.run(
        ["taskset", "--cpu-list", core, *DEMO], env=environment("10,2"), capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, run[0])


WAITING = """
import os
from multiprocessing import Pipe
from bubblescope.demo import channel
receiving, sending = Pipe(duplex=False)
if os.fork() == 0:
    sending.close()
    print(os.getpid(), flush=True)
    channel.spin(receiving)
    print("arrived", receiving.poll() and receiving.recv(), flush=True)
    channel.spin(receiving)
    print("ended", flush=True)
    os._exit(0)
receiving.close()
input()
sending.send("something")
input()
sending.close()
os.wait()
"""


def test_who_spins_keeps_its_core_busy_until_something_arrives_or_the_other_end_is_closed() -> None:
    waiting = subprocess.Popen(
        [sys.executable, "-c", WAITING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    assert waiting.stdin is not None and waiting.stdout is not None
    pid = int(waiting.stdout.readline())
    deadline = time.monotonic() + 30
    while state(pid) != "R" and time.monotonic() < deadline:
        time.sleep(0.01)
    seen = {state(pid) for _ in range(50) if not time.sleep(0.002)}
    assert seen == {"R"}
    waiting.stdin.write("go\n")
    assert waiting.stdout.readline() == "arrived something\n"
    waiting.stdin.write("go\n")
    assert waiting.stdout.readline() == "ended\n"
    assert waiting.wait(30) == 0
    waiting.stdin.close(), waiting.stdout.close()


def test_its_recording_has_every_span_of_every_stage(run: tuple[str, Trace]) -> None:
    trace = run[1]
    counted = trace.spans.groupby(["stage", "kind"], observed=True).size().to_dict()
    requests = len(REQUESTS)
    everywhere = {(stage, "forward"): MICROBATCHES for stage in range(3)}
    assert counted == everywhere | {
        (0, "schedule"): MICROBATCHES, (0, "embed"): MICROBATCHES, (0, "send"): MICROBATCHES,
        (0, "recv"): requests, (1, "recv"): MICROBATCHES, (1, "send"): MICROBATCHES,
        (2, "recv"): MICROBATCHES, (2, "head"): requests, (2, "sample"): requests, (2, "send"): requests,
    }  # fmt: skip
    assert trace.run.lost == ()
    assert (trace.run.engine, trace.run.partition, trace.run.world_size) == ("bubblescope-demo", (5, 4, 3), 3)
    assert trace.run.model["layers"] == 12
    layers = trace.spans[["stage", "layer_begin", "layer_end"]].drop_duplicates().sort_values("stage")
    assert layers.values.tolist() == [[0, 0, 5], [1, 5, 9], [2, 9, 12]]


def test_the_spans_of_a_microbatch_follow_each_other_from_stage_to_stage(run: tuple[str, Trace]) -> None:
    spans = run[1].spans
    for kind, peer in (("send", 1), ("recv", -1)):
        rows = spans[(spans["kind"] == kind) & (spans["tokens"] > 0)]
        downstream = rows[(rows["stage"] + peer).isin([0, 1, 2]) & (rows["peer"] == rows["stage"] + peer)]
        assert len(downstream) == 2 * MICROBATCHES
        assert set(downstream["bytes"]) == {CHUNK_TOKENS * 256 * 4}
    forward = spans[spans["kind"] == "forward"].set_index(["stage", "microbatch"]).sort_index()
    for stage in (1, 2):
        assert (forward.loc[stage]["begin_ns"] >= forward.loc[stage - 1]["end_ns"]).all()
    prompts = forward.loc[0].groupby((forward.loc[0]["prefix"] == 0).cumsum())["tokens"].sum()
    assert tuple(prompts) == REQUESTS


def test_requests_and_the_measured_window(run: tuple[str, Trace]) -> None:
    requests = run[1].requests
    assert requests["prompt_tokens"].tolist() == list(REQUESTS)
    assert requests["warmup"].tolist() == [True, False, False, False]
    assert (requests["first_token_ns"] > requests["arrival_ns"]).all()
    assert (requests["arrival_ns"].to_numpy()[1:] >= requests["end_ns"].to_numpy()[:-1]).all()
    window = run[1].run.window_ns
    assert window is not None
    assert window[0] <= requests["arrival_ns"][1] < requests["end_ns"][3] <= window[1]


@pytest.mark.parametrize("text", ["", "10,", "10,x", "0,12", "-1,3", "1" * 30, ",".join(["1"] * 17), "128,1"])
def test_a_partition_that_is_none_is_explained(text: str) -> None:
    assert parsed(text) is None
    done = subprocess.run(DEMO, env=environment(text or ","), capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert "for example 10,2" in done.stderr and len(done.stderr.splitlines()) == 1


def children(pid: int) -> list[int]:
    """The processes that a process has started, by the kernel's word."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return sorted(found)


def state(pid: int) -> str:
    """Of a process, as ps says it: R is running or wants to, S asleep, Z over; "" if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def running(pid: int) -> bool:
    return state(pid) not in ("", "Z")


def ended(pids: list[int]) -> bool:
    deadline = time.monotonic() + 30
    while any(map(running, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not any(map(running, pids))


@pytest.mark.parametrize("turns", ["", "0", "1001", "-1", "many"])
def test_a_number_of_turns_that_is_none_is_explained(turns: str) -> None:
    done = subprocess.run(
        DEMO, env=environment("6,6") | {"BUBBLESCOPE_DEMO_TURNS": turns}, capture_output=True, text=True,
        timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert "from 1 to 1000" in done.stderr and len(done.stderr.splitlines()) == 1


def test_in_turns_it_waits_for_a_line_after_each_answer(run: tuple[str, Trace]) -> None:
    engine = subprocess.Popen(
        DEMO, env=environment("6,6") | {"BUBBLESCOPE_DEMO_TURNS": "4"}, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert engine.stdin is not None and engine.stdout is not None
    # WHEN it has answered, none of its stages works or spins
    answers = [engine.stdout.readline()]
    stages = children(engine.pid)
    deadline = time.monotonic() + 30
    while {state(pid) for pid in stages} != {"S"} and time.monotonic() < deadline:
        time.sleep(0.01)
    assert {state(pid) for pid in stages for _ in range(50) if not time.sleep(0.002)} == {"S"}
    # THEN a line makes it answer the next prompt, and the end of its input all others
    engine.stdin.write("\n")
    engine.stdin.flush()
    answers.append(engine.stdout.readline())
    engine.stdin.close()
    answers += engine.stdout.readlines()
    assert engine.wait(60) == 0
    assert [int(answer.split()[2]) for answer in answers] == [512, 2048, 2048, 2048, 2048]
    assert answers[0] == run[0].splitlines(keepends=True)[0]
    engine.stdout.close()


@pytest.mark.parametrize("killed", ["stage", "engine by SIGKILL", "engine by SIGTERM", "all by SIGINT"])
def test_however_it_is_ended_nothing_is_left_running(killed: str) -> None:
    # GIVEN an engine that has answered its first request
    engine = subprocess.Popen(
        DEMO, env=environment("6,6"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    assert engine.stdout is not None and engine.stderr is not None
    assert engine.stdout.readline().startswith("request 0:")
    stages = children(engine.pid)
    assert len(stages) >= 2
    # WHEN it or a part of it is killed
    if killed == "stage":
        os.kill(stages[-1], signal.SIGKILL)
    elif killed == "all by SIGINT":
        os.killpg(engine.pid, signal.SIGINT)
    else:
        os.kill(engine.pid, signal.SIGKILL if killed.endswith("SIGKILL") else signal.SIGTERM)
    status = engine.wait(30)
    # THEN all of it ends, without a traceback, and it says what happened to a stage
    assert ended(stages)
    said = [line for line in engine.stderr.read().splitlines() if not line.startswith("request")]
    expected = {
        "stage": (1, ["bubblescope.demo: stage 1 was killed by SIGKILL"]),
        "engine by SIGKILL": (-signal.SIGKILL, []),
        "engine by SIGTERM": (128 + signal.SIGTERM, []),
        "all by SIGINT": (128 + signal.SIGINT, []),
    }
    assert (status, said) == expected[killed]
    engine.stdout.close(), engine.stderr.close()
