"""What is asked of a server: prompts of an exact length that no cache can hold."""

from __future__ import annotations

import pytest

from bubblescope.errors import UsageError
from bubblescope.load.plan import Load, prompts, url_of


def test_prompts_have_exactly_the_length_and_differ_from_the_first_tokens_on() -> None:
    warmup, measured = prompts(Load("http://x", prompt_tokens=1000, requests=50, warmup=2))
    assert (len(warmup), len(measured)) == (2, 50)
    assert {len(prompt.tokens) for prompt in warmup + measured} == {1000}
    # A block of a prefix cache is 16 tokens or more.
    assert len({prompt.tokens[:16] for prompt in warmup + measured}) == 52


def test_a_load_is_the_same_each_time() -> None:
    load = Load("http://x", prompt_tokens=10)
    assert prompts(load) == prompts(load)


@pytest.mark.parametrize(
    ("command", "engine", "url"),
    [
        ("vllm serve m", "vllm", "http://127.0.0.1:8000"),
        ("vllm serve m --port 8105", "vllm", "http://127.0.0.1:8105"),
        ("vllm serve m --port=8105 --host=10.1.2.3", "vllm", "http://10.1.2.3:8105"),
        ("vllm serve m --host 0.0.0.0", "vllm", "http://127.0.0.1:8000"),
        ("vllm serve m --host fd00::1", "vllm", "http://[fd00::1]:8000"),
        ("python -m sglang.launch_server", "sglang", "http://127.0.0.1:30000"),
        ("llama-server -m m.gguf", "llama.cpp", "http://127.0.0.1:8080"),
        ("./my-server --port 1", None, "http://127.0.0.1:1"),
    ],
)
def test_the_command_tells_where_its_server_listens(command: str, engine: str | None, url: str) -> None:
    assert url_of(command.split(), engine) == url


@pytest.mark.parametrize("command", ["./my-server", "./my-server --port", "vllm serve m --port x"])
def test_where_it_does_not_tell_the_user_is_asked(command: str) -> None:
    with pytest.raises(UsageError, match="--url"):
        url_of(command.split(), None)
