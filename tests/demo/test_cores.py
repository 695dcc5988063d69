"""Which core a stage gets."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bubblescope.demo import cores
from bubblescope.demo.cores import cores_of_their_own


def test_every_stage_has_a_core_of_those_that_are_allowed() -> None:
    allowed = os.sched_getaffinity(0)
    found = cores_of_their_own(len(allowed))
    assert found is not None and sorted(found) == sorted(allowed)
    assert cores_of_their_own(len(allowed) + 1) is None


@pytest.mark.parametrize(
    ("stages", "expected"), [(1, [3]), (2, [2, 3]), (3, [0, 2, 3]), (4, [3, 4, 6, 7]), (7, None)]
)
def test_threads_of_one_core_are_shared_by_two_stages_only_if_they_have_to(
    stages: int, expected: list[int] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a fake machine of four cores with two threads each, 0 and 4, 1 and 5, ..., without 1 and 5
    for core in range(8):
        (tmp_path / f"{core}").write_text(f"{core % 4},{core % 4 + 4}\n")
    monkeypatch.setattr(cores, "_SIBLINGS", str(tmp_path / "{}"))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 2, 3, 4, 6, 7})
    assert cores_of_their_own(stages) == expected
