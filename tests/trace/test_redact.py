"""What must not leave the machine does not, and what tells why prefill is slow stays."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblescope.cli import main
from bubblescope.trace import frames
from bubblescope.trace.frames import COUNTERS, REQUESTS, TRACKS
from bubblescope.trace.model import Device, Lost, Run, Trace
from bubblescope.trace.read import read_trace
from bubblescope.trace.redact import redacted, redaction
from bubblescope.trace.secret_text import MARK, without_secrets
from bubblescope.trace.write import write_trace
from tests.trace.files import complete, document, kernel, label
from tests.trace.recordings import traces

KEY = "sk-abc123DEF456ghi789JKL"
RANDOM = "9f86d081884c7d659a2feaa0c55ad015"


def clean(text: str) -> str:
    taken: Counter[str] = Counter()
    result = without_secrets(text, taken)
    assert (result != text) == bool(taken), "what is taken out is counted, and nothing else"
    return result


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"using {KEY} now", f"using {MARK} now"),
        ("hf_abcdefghijKLMNOPqrst1234", MARK),
        ("AKIAIOSFODNN7EXAMPLE", MARK),
        ("ghp_16C7e42F292c6912E7710c838347Ae178B4a", MARK),
        ("github_pat_11ABCDEFG0abcdefghijkl_mnop", MARK),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc-DEF_123", MARK),
        ("Authorization: Bearer abcdef.123456-xyz", f"Authorization: Bearer {MARK}"),
        ("vllm serve m --api-key letmein --port 8000", f"vllm serve m --api-key {MARK} --port 8000"),
        ("--api-key=letmein", f"--api-key={MARK}"),
        ("--hf-token 'quoted one' -x", f"--hf-token '{MARK}' -x"),
        ("--hf_token abc", f"--hf_token {MARK}"),
        ("password=hunter2, x=1", f"password={MARK}, x=1"),
        ('{"password": "hunter2"}', f'{{"password": "{MARK}"}}'),
        (f"token={RANDOM}", f"token={MARK}"),
        (f"session key: {RANDOM}", f"session key: {MARK}"),
        ("HF_TOKEN=abcdef vllm serve", f"HF_TOKEN={MARK} vllm serve"),
        ("AWS_SECRET_ACCESS_KEY=a/b+c= x", f"AWS_SECRET_ACCESS_KEY={MARK} x"),
        ("PGPASSWORD=1234", f"PGPASSWORD={MARK}"),
        ("https://me:pw@example.org/x?y=1", f"https://{MARK}@example.org/x?y=1"),
        ("redis://:pw@cache:6379", f"redis://{MARK}@cache:6379"),
        (f"https://example.org/?api_key={RANDOM}&x=1", f"https://example.org/?api_key={MARK}&x=1"),
        ("/home/alice/models/m", "/home/user/models/m"),
        ("/Users/alice", "/Users/user"),
        (r"C:\Users\alice\x", r"C:\Users\user\x"),
        ("prompt='Tell me a \\'secret\\''", f"prompt='{MARK}'"),
        ('"content": "Dear diary', f'"content": "{MARK}"'),
        ("prompt: Tell me all about it", f"prompt: {MARK}"),
        ("--prompt 'once upon a time' --n 4", f"--prompt '{MARK}' --n 4"),
    ],
)
def test_secrets_in_a_text(text: str, expected: str) -> None:
    assert clean(text) == expected
    assert clean(expected) == expected


@pytest.mark.parametrize(
    "text",
    [
        "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
        "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl<int>>(int)::{lambda(int)#1}",
        "execute_context_1(4096)_generation_0(0)",
        "execute_8192_context_9(sq8155sk8430sqsq7475785sqsk7671310)_generation_37(sq37sk34489)",
        "step[DECODE bs=1]",
        "_topk_topp_kernel key=3 token=7",
        "max_num_batched_tokens=4096 --max-tokens 16 tokens: 12345678901234567890",
        "VLLM_PP_LAYER_PARTITION=27,9",
        "VLLM_USE_FLASHINFER_SAMPLER=0 NUM_KEYS=5 BLOCK_TOKEN=64",
        "--skip-tokenizer-init --tokenizer-mode auto --input-len 1024 --prompt 512",
        "prompt: 4096, prompt_tokens=4096",
        "flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4, false, cutlass::bfloat16_t>>",
        "sk-learn-based-scheduler",
        "Memcpy HtoD (Pinned -> Device)",
        "thread 2662 (python3)",
        "/usr/lib/python3/dist-packages",
        "http://localhost:8000/v1/completions",
        "a@b",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert clean(text) == text


@given(st.text(max_size=80))
def test_redacting_a_text_twice_is_redacting_once(text: str) -> None:
    once = clean(text)
    assert clean(once) == once


PIECES = st.sampled_from(
    ["token=", "key: ", "password", "=", "'", '"', " ", "/home/", "bob", KEY, RANDOM, "://", "@", "prompt=",
     "Bearer ", "--api-key", "content", ":", "{", "[", "]", ",", "1", "HF_TOKEN=", "\\", "C:\\Users\\", MARK,
     "user", "a1b2c3d4"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=10).map("".join))
def test_redacting_twice_is_redacting_once_where_secrets_meet(text: str) -> None:
    once = clean(text)
    assert clean(once) == once


@given(traces())
def test_redacting_a_recording_twice_is_redacting_once(trace: Trace) -> None:
    once = redacted(trace)
    twice, taken = redaction(once)
    assert twice.run == once.run
    for name in ("tracks", "slices", "spans", "requests", "counters"):
        pd.testing.assert_frame_equal(getattr(twice, name), getattr(once, name))
    assert +taken == Counter()


@pytest.mark.parametrize(
    "text",
    ["_", "-", "a_", "--a", "sk-", "-eyJ", "key", "://", '"', "token= ", "bearer ", "A", "/home/", "prompt:"],
)
def test_time_is_linear_in_a_hostile_text(text: str) -> None:
    def seconds(count: int) -> float:
        begin = time.process_time()
        without_secrets(text * (count // len(text)), Counter())
        return time.process_time() - begin

    assert seconds(400_000) < 0.5 + 8 * seconds(100_000)


def a_run(**changed: Any) -> Run:
    devices = (
        Device(rank=0, host="gpu-node-7"),
        Device(rank=1, host="gpu-node-12"),
        Device(rank=2, host="gpu-node-7"),
    )
    return replace(Run(devices=devices), **changed)


def test_hosts_get_the_same_new_name_everywhere() -> None:
    run = a_run(
        command=("serve", "--master-addr", "gpu-node-12:29500", "--host", "0.0.0.0", "--node-ip", "10.1.2.3"),
        facts={"log": "gpu-node-7 connects to gpu-node-12, not to gpu-node-77"},
        lost=(Lost("file", "/mnt/gpu-node-7/trace.json"),),
    )
    result = redacted(Trace(run)).run
    assert [device.host for device in result.devices] == ["host0", "host1", "host0"]
    assert result.command == (
        "serve",
        "--master-addr",
        "host1:29500",
        "--host",
        "0.0.0.0",
        "--node-ip",
        "host2",
    )
    assert result.facts == {"log": "host0 connects to host1, not to gpu-node-77"}
    assert result.lost[0].why == "/mnt/host0/trace.json"


def test_hosts_that_are_called_like_new_names_are_not_mixed_up() -> None:
    run = Run(devices=(Device(host="host1"), Device(host="host0")), facts={"a": "host0, host1"})
    once = redacted(Trace(run))
    assert [device.host for device in once.run.devices] == ["host0", "host1"]
    assert once.run.facts == {"a": "host1, host0"}
    assert redacted(once).run == once.run


def test_a_short_host_name_is_not_looked_for_in_words() -> None:
    trace = Trace(Run(devices=(Device(host="vm"),), facts={"a": "vm or vm"}))
    assert redacted(trace).run.facts == {"a": "vm or vm"}


def test_words_of_a_command() -> None:
    command = (
        "vllm", "serve", "--api-key", "letmein", "--hf-token", "t", "--prompt", "Once upon", "-p", "512",
        "-p", "a long text", "--pipeline-parallel-size", "2", "HF_TOKEN=x1",
    )  # fmt: skip
    assert redacted(Trace(a_run(command=command))).run.command == (
        "vllm", "serve", "--api-key", MARK, "--hf-token", MARK, "--prompt", MARK, "-p", "512", "-p", MARK,
        "--pipeline-parallel-size", "2", f"HF_TOKEN={MARK}",
    )  # fmt: skip


@pytest.mark.parametrize(
    "words", [("-k", RANDOM), ("--license", RANDOM), ("serve", RANDOM, "-v"), (f"-k={RANDOM}",)]
)
def test_a_word_that_looks_random_is_a_secret_whatever_stands_before_it(words: tuple[str, ...]) -> None:
    shown = redacted(Trace(a_run(command=words))).run.command
    assert shown == tuple(word.replace(RANDOM, MARK) for word in words)


@pytest.mark.parametrize(
    "words",
    [
        ("--revision", RANDOM),
        (f"--code-revision={RANDOM}",),
        ("-m", "Qwen3-30B-A3B-Instruct-2507-Q4_K_M.gguf"),
        ("-m", "/models/9f86d081884c7d659a2feaa0c55ad015/model"),
        ("-ot", "blk.12.ffn=CPU"),
        ("serve", "DeepSeekCoderV2LiteInstruct"),
        ("--kv-cache-memory-bytes", "12345678901234567890"),
    ],
)
def test_names_of_models_revisions_and_numbers_are_none(words: tuple[str, ...]) -> None:
    assert redacted(Trace(a_run(command=words))).run.command == words


def test_fields_by_their_name() -> None:
    facts = {
        "api_key": "abc", "hf_token": "abc", "messages": [{"role": "user", "content": "hi"}],
        "prompt": "hello", "text": "hello", "prompt_tokens": 5, "max_tokens": 16, "input": 7, "token": None,
        "chunk": {"content": "deep", "size": 4096},
        "env": ["PATH=/bin", "WANDB_API_KEY=abc"], "tokens": "many",
    }  # fmt: skip
    trace, taken = redaction(Trace(a_run(facts=facts)))
    assert trace.run.facts == {
        "api_key": MARK, "hf_token": MARK, "messages": MARK, "prompt": MARK, "text": MARK, "prompt_tokens": 5,
        "max_tokens": 16, "input": 7, "token": None, "chunk": {"content": MARK, "size": 4096},
        "env": ["PATH=/bin", f"WANDB_API_KEY={MARK}"], "tokens": "many",
    }  # fmt: skip
    assert taken == {
        "host names": 3, "secrets after a name": 2, "prompt text": 4, "secrets in the environment": 1,
    }  # fmt: skip


def test_texts_of_the_tables() -> None:
    track = {"device": [0], "process": [f"vllm --api-key={KEY}"], "lane": ["gpu-node-7"], "kind": ["thread"]}
    trace = Trace(
        a_run(),
        tracks=frames.table(TRACKS, track),
        requests=frames.table(
            REQUESTS,
            {"request": [f"r {KEY}", "r2"], "arrival_ns": [1, 2], "first_token_ns": [None, 3],
             "end_ns": [None, 4], "prompt_tokens": [1, 1], "output_tokens": [0, 0], "warmup": [False, False]},
        ),
        counters=frames.table(COUNTERS, {"device": [0], "name": ["mhz"], "time_ns": [1], "value": [1.0]}),
    )  # fmt: skip
    result = redacted(trace)
    assert list(result.tracks["process"]) == [f"vllm --api-key={MARK}"]
    assert list(result.tracks["lane"]) == ["host0"]
    assert list(result.requests["request"]) == [f"r {MARK}", "r2"]
    pd.testing.assert_frame_equal(result.counters, trace.counters)


def test_writing_redacts(tmp_path: Path) -> None:
    write_trace(Trace(a_run(facts={"note": KEY})), tmp_path / "t.json")
    assert KEY not in (tmp_path / "t.json").read_text()
    assert "gpu-node" not in (tmp_path / "t.json").read_text()


# --- the command


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A profiler's trace with secrets in places that we read, and in places that we do not."""
    events = [
        kernel(1, 1, "gemm", secret=KEY),
        complete("user_annotation", "chat(prompt='my diary')", 1, 1, pid=9, tid=9),
        label("process_name", f"serve --api-key {KEY}"),
        complete("python_function", f"login({KEY})", 1, 1),
    ]
    path = tmp_path / "rank0.pt.trace.json"
    path.write_text(json.dumps(document(*events, host_name="gpu-node-7", traceName=f"/home/alice/{KEY}")))
    return path


def test_the_command_writes_beside_and_says_what_it_took(
    foreign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = foreign.read_bytes()
    assert main(["redact", str(foreign)]) == 0
    target = foreign.with_name("rank0.pt.trace.redacted.json.gz")
    assert capsys.readouterr().out.splitlines() == [
        f"wrote {target}",
        "  1 × host names taken out",
        "  1 × prompt text taken out",
        "  1 × secrets after a flag taken out",
    ]
    trace = read_trace(target)
    assert set(trace.slices["name"]) == {"gemm", f"chat(prompt='{MARK}')"}
    assert trace.run.devices[0].host == "host0"
    write_trace(trace, target.with_name("plain.json"))
    text = target.with_name("plain.json").read_text()
    assert not [secret for secret in (KEY, "alice", "diary", "gpu-node") if secret in text]
    assert foreign.read_bytes() == before


def test_the_command_overwrites_nothing_unasked(foreign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = foreign.with_name("out.json")
    target.write_text("mine")
    assert main(["redact", str(foreign), "-o", str(target)]) == 2
    assert capsys.readouterr().err == f"bubblescope: {target} exists; --force overwrites it\n"
    assert target.read_text() == "mine"
    assert main(["redact", str(foreign), "-o", str(target), "--force"]) == 0
    assert len(read_trace(target).slices) == 2


def test_the_command_takes_a_folder(foreign: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(foreign.parent)
    assert main(["redact", "."]) == 0
    assert foreign.parent.with_name(f"{foreign.parent.name}.redacted.json.gz").exists()
    assert os.listdir() == [foreign.name]


def test_the_command_says_what_was_damaged(foreign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    foreign.write_bytes(foreign.read_bytes()[:-5])
    assert main(["redact", str(foreign)]) == 4
    assert "the rest is written" in capsys.readouterr().err


def test_what_a_trace_says_of_its_damage_does_not_reach_the_terminal_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.json"
    write_trace(Trace(Run(devices=(Device(),), lost=(Lost("\x1b[31m", "a\nb", damage=True),))), path)
    assert main(["redact", str(path)]) == 4
    assert capsys.readouterr().err == "bubblescope: damaged: \\x1b[31m: a\\nb; the rest is written\n"


def test_the_command_refuses_what_is_no_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "page.json"
    path.write_text("<!DOCTYPE html>")
    assert main(["redact", str(path)]) == 3
    assert capsys.readouterr() == ("", f"bubblescope: not a trace: {path} looks like an HTML page\n")
    assert os.listdir(tmp_path) == ["page.json"]
