"""An SGLang that is too old to load plugins is recorded as well; here a stand-in of one, named so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bubblescope.record import plugins
from bubblescope.record.spool import read_spool
from tests.collectors.programs import COLLECTORS

FRONT_END = """
class TokenizerManager:
    rid_to_state = {}
    def _send_one_request(self, obj, tokenized_obj, created_time=None):
        return tokenized_obj.rid
"""
PROGRAM = """
from types import SimpleNamespace as Some
from sglang.srt.managers.tokenizer_manager import TokenizerManager
request = Some(rid="a", input_ids=[1, 2, 3])
assert TokenizerManager()._send_one_request(request, request) == "a"
"""


def stand_in_of_sglang(folder: Path, has_plugins: bool) -> None:
    managers = folder / "sglang" / "srt" / "managers"
    managers.mkdir(parents=True)
    (folder / "sglang" / "__init__.py").write_text("")
    (managers / "tokenizer_manager.py").write_text(FRONT_END)
    if has_plugins:
        (folder / "sglang" / "srt" / "plugins").mkdir()


@pytest.mark.parametrize(("has_plugins", "requests"), [(False, ["a"]), (True, [])])
def test_hooks_are_set_as_python_starts_unless_sglang_loads_them(
    tmp_path: Path, has_plugins: bool, requests: list[str]
) -> None:
    stand_in_of_sglang(tmp_path / "packages", has_plugins)
    spool = tmp_path / "spool"
    spool.mkdir()
    paths = (plugins.write(tmp_path), COLLECTORS, tmp_path / "packages")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={
            **os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "BUBBLESCOPE_SPOOL": str(spool)
        },
        capture_output=True,
        text=True,
        timeout=120,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    processes = read_spool(str(spool))[0] if any(spool.iterdir()) else []
    told = [process.texts[row["request"]] for process in processes for row in process.requests]
    assert told == requests
