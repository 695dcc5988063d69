"""The engine in a command line, however it is started."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from bubblescope.record.command_line import engine_of


@pytest.mark.parametrize(
    ("command", "engine"),
    [
        ("vllm serve MODEL -pp 2", "vllm"),
        ("/opt/venv/bin/vllm serve MODEL", "vllm"),
        ("python -m vllm.entrypoints.openai.api_server --model M", "vllm"),
        ("/usr/bin/python3.12 -u -X dev -m vllm.entrypoints.cli.main serve M", "vllm"),
        ("python3 /opt/venv/bin/vllm serve M", "vllm"),
        ("python -c 'import os; from vllm import LLM'", "vllm"),
        ("python -m sglang.launch_server --pp-size 2", "sglang"),
        ("llama-server -m X.gguf -ngl 99", "llama.cpp"),
        ("./build/bin/llama-bench -m X.gguf", "llama.cpp"),
        ("llama-embedding -m X.gguf", "llama.cpp"),
        ("python -m llama_cpp.server --model X", "llama.cpp"),
        ("python -m bubblescope.demo", "bubblescope-demo"),
        ("env -u PYTHONPATH CUDA_VISIBLE_DEVICES=0,1 VLLM_PP_LAYER_PARTITION=27,9 vllm serve M", "vllm"),
        ("env -i A=b env C=d python -m sglang.launch_server", "sglang"),
        ("nohup nice -n 10 timeout -k 5 1h vllm serve M", "vllm"),
        ("taskset 0x3 numactl --cpunodebind=0 llama-server -m X", "llama.cpp"),
        ("taskset -c 0-3 llama-server -m X", "llama.cpp"),
        ("uv run vllm serve M", "vllm"),
        ("sh -c 'cd /srv && exec vllm serve M'", "vllm"),
        ("bash -lc 'export A=1; B=2 python -m sglang.launch_server | tee log'", "sglang"),
        ("torchrun --nproc-per-node 2 --master-addr h -m sglang.launch_server --x", "sglang"),
        ("python -m torch.distributed.run --nnodes=2 -m vllm.entrypoints.api_server", "vllm"),
        ("python -m http.server", None),
        ("python -m vllmish.server", None),
        ("echo vllm", None),
        ("grep -r sglang .", None),
        ("env", None),
        ("python", None),
        ("sh -c", None),
        ("sh -c 'echo \"vllm serve'", None),
        ("timeout 5", None),
        ("", None),
    ],
)
def test_it_is_recognised(command: str, engine: str | None) -> None:
    assert engine_of(shlex.split(command)) == engine


@pytest.mark.parametrize(
    ("script", "engine"),
    [
        ("#!/bin/sh\n# starts vllm\nset -e\nexec vllm serve \\\n  M --port 8000\n", "vllm"),
        ('#!/usr/bin/env bash\nexport A=1\npython -m \\\n  sglang.launch_server "$@"\n', "sglang"),
        ("#!/usr/bin/env python3\nimport os\nfrom vllm import LLM\n", "vllm"),
        ("#!/bin/sh\necho vllm\n", None),
        ("\x7fELF vllm serve", None),
        ("", None),
    ],
)
def test_it_is_recognised_in_a_script(script: str, engine: str | None, tmp_path: Path) -> None:
    path = tmp_path / "start"
    path.write_text(script)
    assert engine_of([str(path), "--port", "1"]) == engine
    assert engine_of(["env", "A=b", str(path)]) == engine


def test_it_is_recognised_in_a_python_program(tmp_path: Path) -> None:
    path = tmp_path / "offline.py"
    path.write_text("import sys\n\ndef main():\n    import vllm\n")
    assert engine_of(["python", "-O", str(path)]) == "vllm"
    assert engine_of(["torchrun", "--nproc-per-node=2", str(path)]) == "vllm"
    assert engine_of(["python", str(tmp_path / "missing.py")]) is None


def test_scripts_that_start_each_other_end_somewhere(tmp_path: Path) -> None:
    path = tmp_path / "loop"
    path.write_text(f"#!/bin/sh\n{path}\n")
    assert engine_of([str(path)]) is None
