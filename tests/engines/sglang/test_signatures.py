"""The functions that are hooked are where the table says; a newer SGLang that moved one is told of."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engines.serving import ENGINES
from tests.engines.sglang.serving import installed
from tests.engines.sglang.signatures import TABLE, TARGETS
from tests.engines.vllm.signatures import signature

KNOWN: dict[str, dict[str, str | None]] = json.loads(TABLE.read_text())


def test_the_table_holds_every_function_that_is_hooked() -> None:
    assert sorted(KNOWN) == TARGETS


@pytest.mark.parametrize("target", TARGETS)
def test_every_known_version_has_the_function(target: str) -> None:
    missing = [version for version, arguments in KNOWN[target].items() if arguments is None]
    assert missing == [], f"{target} is not in SGLang {', '.join(missing)}"


@installed
@pytest.mark.parametrize("target", TARGETS)
def test_the_installed_sglang_has_not_moved_it(target: str) -> None:
    (sources,) = (ENGINES / "sglang").glob("lib/python*/site-packages")
    version = (ENGINES / "sglang" / "installed").read_text().strip()
    before = list(KNOWN[target].values())[-1]
    assert signature(Path(sources), target) == KNOWN[target].get(version, before), (
        f"SGLang {version} moved {target}, or gave it other arguments"
    )
