"""An engine is made to load the collector, with whatever plugins the user has."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bubblescope.record import plugins

RAY = "VLLM_RAY_EXTRA_ENV_VARS_TO_COPY"


def test_the_metadata_is_found_where_python_looks_for_it(tmp_path: Path) -> None:
    folder = plugins.write(tmp_path)
    (distribution,) = importlib.metadata.distributions(path=[str(folder)])
    assert {(entry.group, entry.name, entry.value) for entry in distribution.entry_points} == {
        ("vllm.general_plugins", "bubblescope", "_bubblescope_inject.vllm:register"),
        ("sglang.srt.plugins", "bubblescope", "_bubblescope_inject.sglang:register"),
    }


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, None),  # unset means all plugins
        ({"VLLM_PLUGINS": ""}, "bubblescope"),
        ({"SGLANG_PLUGINS": ""}, None),  # all, to SGLang
        ({"VLLM_PLUGINS": "mine"}, "mine,bubblescope"),
        ({"SGLANG_PLUGINS": "mine"}, "mine,bubblescope"),
        ({"VLLM_PLUGINS": "mine,bubblescope"}, "mine,bubblescope"),
    ],
)
def test_plugins_that_the_user_chose_stay_and_ours_is_added(
    before: dict[str, str], after: str | None
) -> None:
    name = next(iter(before), "VLLM_PLUGINS")
    assert plugins.environment(before, ()).get(name) == after


def test_variables_that_ray_copies_stay_and_ours_are_added() -> None:
    assert plugins.environment({}, ("A", "B"))[RAY] == "A,B"
    assert plugins.environment({RAY: "MINE,A"}, ("A", "B"))[RAY] == "MINE,A,B"


@pytest.mark.parametrize(
    ("user", "printed"),
    [
        ("", "{user}/sitecustomize.py"),
        ("raise ValueError('broken')", "Error in sitecustomize; set PYTHONVERBOSE for traceback:"),
        (None, "none"),
    ],
)
def test_a_python_without_the_collectors_runs_the_sitecustomize_that_is_hidden(
    tmp_path: Path, user: str | None, printed: str
) -> None:
    """As in a Python too old for them, which gets the same lines to run."""
    ours, theirs = plugins.write(tmp_path / "spool"), tmp_path / "user"
    theirs.mkdir()
    if user is not None:
        (theirs / "sitecustomize.py").write_text(user)
    print_it = "import sys; print(getattr(sys.modules.get('sitecustomize'), '__file__', 'none'))"
    done = subprocess.run(
        [sys.executable, "-c", print_it],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ours), str(theirs)])},
        capture_output=True,
        text=True,
    )
    assert (done.stderr + done.stdout).splitlines()[0] == printed.format(user=theirs)
    assert done.returncode == 0
