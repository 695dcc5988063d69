"""Where in a job a name says that a process is."""

from __future__ import annotations

import pytest

from bubblescope.trace.ranks import Place, missing_ranks, place_in, rank_along, ranks_in_words


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rank1.pt.trace.json.gz", Place(rank=1)),
        ("kineto_rank_12.json", Place(rank=12)),
        ("dp0_pp1_tp2_rank3.1700000000.pt.trace.json", Place(rank=3, pp=1, tp=2, dp=0)),
        ("1795971719.753645-TP-0-PP-1.trace.json.gz", Place(pp=1, tp=0)),
        ("worker3_step_12.1694128201557.pt.trace.json.gz", Place(rank=3)),
        ("host_1.json", Place(rank=1)),
        ("host7.rank2.json", Place(rank=2)),
        ("sglang::scheduler_TP1_PP2", Place(pp=2, tp=1)),
        ("sglang::scheduler_PP1", Place(pp=1)),
        ("VLLM::Worker_PP1_TP0", Place(pp=1, tp=0)),
        ("app1.json", Place()),
        ("frank2.json", Place()),
        ("http2.json", Place()),
        ("trace.json", Place()),
        ("rank.json", Place()),
    ],
)
def test_names_tell_places(name: str, expected: Place) -> None:
    assert place_in(name) == expected


def test_tensor_parallelism_counts_fastest() -> None:
    assert rank_along(Place(pp=2, tp=1), tp_size=4) == 9
    assert rank_along(Place(pp=2), tp_size=4) is None
    assert rank_along(Place(pp=2, tp=1, dp=1), tp_size=4) is None


@pytest.mark.parametrize(
    ("present", "world_size", "words"),
    [
        ({0, 1}, 2, None),
        ({0}, 2, "rank 1"),
        ({1}, None, "rank 0"),
        ({0, 2}, 4, "ranks 1, 3"),
        ({0}, 8, "ranks 1-7"),
        ({0, 5}, 8, "ranks 1-4, 6-7"),
        ({3}, 2, "ranks 0-2"),
        ({0}, 10**15, "ranks 1-999999999999999"),
    ],
)
def test_missing_ranks(present: set[int], world_size: int | None, words: str | None) -> None:
    missing = missing_ranks(present, world_size)
    assert (ranks_in_words(missing) if missing else None) == words
