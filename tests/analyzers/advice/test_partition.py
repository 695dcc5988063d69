from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from bubblescope.analyzers.advice.cost import CostModel
from bubblescope.analyzers.advice.partition import allowed_ranges, best_split, score
from bubblescope.analyzers.advice.schedule import Schedule


def case(
    seed: int,
    stages: int,
    chunks: int,
    prompts: int = 1,
    *,
    apart: bool = True,
    limit: int | None = None,
    held: bool = False,
) -> tuple[CostModel, Schedule]:
    """Random costs, links and pauses; prompts of equal length, with an empty pipeline between or not."""
    rng = np.random.default_rng(seed)
    count = chunks * prompts
    growth = np.tile(1 + rng.uniform(0, 0.3) * np.arange(chunks), prompts)
    per_layer = 1000 * rng.uniform(0.5, 2, (stages, 1)) * growth * rng.uniform(0.9, 1.1, (stages, count))
    ends = np.zeros((stages, count))
    ends[0], ends[-1] = rng.uniform(0, 2000, 2)
    none, first = np.zeros((stages, count)), np.arange(prompts) * chunks
    opens = np.isin(np.arange(count), first if apart else [0])
    pause = np.where(rng.random((stages, count)) < 0.05, 5000.0, 0)
    model = CostModel(per_layer, ends, none, np.ones(stages), np.ones(stages), tuple(range(stages)), ())
    links = np.concatenate(([0], rng.uniform(0, 1000, stages - 1)))
    launch = rng.uniform(0, 500, stages)
    arrival = np.zeros(prompts)
    plan = Schedule(
        opens=opens,
        release=np.zeros(count),
        pause_ns=pause,
        hiccup_ns=none,
        launch_ns=launch,
        transfer_ns=links,
        in_flight=limit,
        handover_ns=np.full(stages, 100.0 if held else -np.inf),
        first=first,
        last=first + chunks - 1,
        arrival=arrival,
    )
    return model, plan


def every_split(stages: int, layers: int) -> list[tuple[int, ...]]:
    return [
        tuple(np.diff((0, *cuts, layers)).tolist()) for cuts in combinations(range(1, layers), stages - 1)
    ]


@pytest.mark.parametrize("seed", range(25))
def test_no_split_is_better_than_the_best(seed: int) -> None:
    # GIVEN some pipeline, of two to four stages, with and without a limit on what is in flight
    rng = np.random.default_rng(seed)
    stages, chunks, prompts = (int(rng.integers(*bounds)) for bounds in ((2, 5), (1, 7), (1, 4)))
    layers = int(rng.integers(stages + 1, 13))
    limit = [None, 1, 2, stages][seed % 4]
    model, plan = case(seed, stages, chunks, prompts, apart=seed % 2 == 0, limit=limit, held=seed % 3 == 0)
    # WHEN the best split is sought
    found = best_split(model, plan, allowed_ranges(stages, layers), every_split(stages, layers)[0])
    # THEN trying them all finds none that is better
    assert found is not None and found.proven
    least = min(score(model, plan, split) for split in every_split(stages, layers))
    assert score(model, plan, found.layers) == pytest.approx(least, rel=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_forbidden_cuts_and_full_memories_are_kept_to(seed: int) -> None:
    model, plan = case(seed, 3, 4)
    allowed = allowed_ranges(3, 10, no_cut_before=[3, 4], most=[10, 3, 10])
    found = best_split(model, plan, allowed, (2, 3, 5))
    kept = [
        split
        for split in every_split(3, 10)
        if split[1] <= 3 and not {split[0], split[0] + split[1]} & {3, 4}
    ]
    assert found is not None and found.layers in kept
    assert score(model, plan, found.layers) == min(score(model, plan, split) for split in kept)


def test_no_split_is_found_where_none_is_allowed() -> None:
    model, plan = case(0, 2, 4)
    assert best_split(model, plan, allowed_ranges(2, 10, most=[4, 4]), (5, 5)) is None


def test_of_equals_the_recorded_split_is_kept() -> None:
    # GIVEN one chunk: on equal stages it takes as long whatever the split, and 5,4 is as even as 4,5
    model, plan = case(0, 2, 1)
    equal = CostModel(np.full((2, 1), 10.0), *(np.zeros((2, 1)),) * 2, model.low, model.high, (0, 1), ())
    for recorded in ((5, 4), (4, 5)):
        found = best_split(equal, plan, allowed_ranges(2, 9), recorded)
        assert found is not None and found.layers == recorded


@pytest.mark.parametrize("prompts", [1, 40])
def test_a_hundred_layers_on_eight_stages_are_searched_to_the_end(prompts: int) -> None:
    # The effort that a search may take, about a second, is part of what `proven` says.
    model, plan = case(3, 8, 25, prompts)
    found = best_split(model, plan, allowed_ranges(8, 100), (13, 13, 13, 13, 12, 12, 12, 12))
    assert found is not None and found.proven


def test_an_endless_queue_is_too_much_to_try_every_split() -> None:
    # GIVEN 300 prompts that follow each other without a gap
    model, plan = case(3, 8, 49, 300, apart=False)
    allowed = allowed_ranges(8, 100)
    found = best_split(model, plan, allowed, (13, 13, 13, 13, 12, 12, 12, 12))
    # THEN at least the split with the shortest busiest stage is found, and nothing is claimed
    assert found is not None and not found.proven
    times = model.times_ns(found.layers).sum(axis=1)
    longer = [model.times_ns(other).sum(axis=1).max() for other in neighbours(found.layers)]
    assert times.max() <= min(longer)


def neighbours(split: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Those with one layer moved from one stage to another."""
    moves = np.eye(len(split), dtype=int)
    moved = [np.array(split) + one - other for one in moves for other in moves if (one != other).any()]
    return [tuple(each.tolist()) for each in moved if each.min() >= 1]
