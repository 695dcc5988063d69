"""The functions that are hooked are where the table says; a newer vLLM that moved one is told of."""

from __future__ import annotations

import json
from itertools import dropwhile
from pathlib import Path

import pytest

from bubblescope.collectors._bubblescope_inject.vllm.targets import ESSENTIAL, HOOKS
from tests.engines.serving import ENGINES
from tests.engines.vllm.serving import OLDER, installed
from tests.engines.vllm.signatures import TABLE, TARGETS, signature

KNOWN: dict[str, dict[str, str | None]] = json.loads(TABLE.read_text())
VERSIONS = list(next(iter(KNOWN.values())))


def test_the_table_holds_every_function_that_is_hooked() -> None:
    assert sorted(KNOWN) == TARGETS


@pytest.mark.parametrize("version", VERSIONS)
def test_every_known_version_shows_all_that_is_essential(version: str) -> None:
    seen = {
        told
        for hook in HOOKS
        for function in hook.functions
        for told in (hook.name, hook.also)
        if KNOWN[f"{hook.module}:{function}"][version] is not None
    }
    assert ESSENTIAL.keys() <= seen


@pytest.mark.parametrize("target", TARGETS)
def test_what_a_version_has_the_later_ones_have_too(target: str) -> None:
    since = dropwhile(lambda version: KNOWN[target][version] is None, VERSIONS)
    missing = [version for version in since if KNOWN[target][version] is None]
    assert missing == [], f"{target} is not in vLLM {', '.join(missing)}"


@installed
@pytest.mark.parametrize("target", TARGETS)
def test_the_installed_vllm_has_not_moved_it(target: str) -> None:
    (sources,) = (ENGINES / "vllm").glob("lib/python*/site-packages")
    version = (ENGINES / "vllm" / "installed").read_text().strip()
    before = list(KNOWN[target].values())[-1]
    assert signature(Path(sources), target) == KNOWN[target].get(version, before), (
        f"vLLM {version} moved {target}, or gave it other arguments"
    )


@installed
@pytest.mark.parametrize("version", OLDER)
def test_the_table_is_right_about_the_older_versions_that_are_installed(version: str) -> None:
    sources = OLDER[version]
    assert {target: signature(sources, target) for target in TARGETS} == {
        target: known[version] for target, known in KNOWN.items()
    }
