"""Which microbatches are the prefill of one prompt, and which stretches of them overlap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from bubblescope.analyzers.advice.occupancy import CannotTellError, Longs, Occupancy
from bubblescope.analyzers.results import Analysis
from bubblescope.trace.frames import UNKNOWN


@dataclass(frozen=True)
class Prompt:
    """One prompt: its first and last microbatch, as columns of the arrays.

    arrival_ns (since the arrays' origin) and ttft_ns are None where its request is not recorded.
    """

    first: int
    last: int
    arrival_ns: int | None = None
    ttft_ns: int | None = None


@dataclass(frozen=True)
class Prefill:
    """The prompts, and all microbatches that ran while they were prefilled.

    stretches: half-open ranges of columns; between two of them the pipeline was empty.
    """

    work: Occupancy
    prompts: tuple[Prompt, ...]
    stretches: tuple[tuple[int, int], ...]

    def makespan_ns(self, prompt: Prompt) -> int:
        """From its first compute on the first stage to its last on the last stage."""
        return int(self.work.end_ns[-1, prompt.last] - self.work.begin_ns[0, prompt.first])


def prefill(analysis: Analysis, work: Occupancy) -> Prefill:
    """The measured prompts inside the window. Raises CannotTellError where there is none."""
    if bool(work.decode.all()):
        raise CannotTellError("the recording shows decode steps only, no prefill")
    begin_ns, end_ns = (ns - work.origin_ns for ns in analysis.window_ns)
    bursts = analysis.bursts["begin_ns"].to_numpy() - work.origin_ns
    prompts = [
        Prompt(chunks[0], chunks[-1])
        for chunks in _chunks(work, bursts)
        if bool(work.whole[chunks].all())
        and work.begin_ns[0, chunks[0]] >= begin_ns
        and work.end_ns[-1, chunks[-1]] <= end_ns
    ]
    prompts = _measured(prompts, work, analysis.trace.requests)
    if not prompts:
        raise CannotTellError("no prompt is recorded whole, on every stage and inside the window")
    return _trimmed(prompts, work)


def _chunks(work: Occupancy, bursts: Longs) -> list[list[int]]:
    """The columns of each prompt. A chunk goes on the prompt that has come as far as its prefix.

    Of several such the newest: an older one of the same length is finished. Where no prefix is
    recorded, a prompt is what runs in one burst without a decode step in between.
    """
    prompts: list[list[int]] = []
    reached: dict[int, list[list[int]]] = {}
    current: list[int] | None = None
    burst = np.searchsorted(bursts, work.begin_ns.max(axis=0), side="right").tolist()
    columns = (work.decode.tolist(), work.tokens.tolist(), work.prefix.tolist())
    for column, (decode, tokens, prefix) in enumerate(zip(*columns, strict=True)):
        if decode:
            current = None
            continue
        if reached.get(prefix):
            current = reached[prefix].pop()
        elif prefix != UNKNOWN or current is None or burst[current[-1]] != burst[column]:
            current = []
            prompts.append(current)
        current.append(column)
        if prefix != UNKNOWN and tokens > 0:
            reached.setdefault(prefix + tokens, []).append(current)
    return prompts


def _measured(prompts: list[Prompt], work: Occupancy, requests: pd.DataFrame) -> list[Prompt]:
    """The prompts with their requests, in order of arrival, without warm-ups; all if none fits."""
    known = requests[requests["first_token_ns"].notna()]
    columns = (known[name].tolist() for name in ("arrival_ns", "first_token_ns", "warmup"))
    matched: list[tuple[Prompt, bool]] = []
    left = iter(sorted(prompts, key=lambda prompt: prompt.first))
    prompt = next(left, None)
    for arrival, first_token, warmup in sorted(zip(*columns, strict=True)):
        arrived, answered = arrival - work.origin_ns, first_token - work.origin_ns
        while prompt is not None and work.begin_ns[0, prompt.first] < arrived:
            prompt = next(left, None)
        if prompt is not None and work.end_ns[-1, prompt.last] <= answered:
            matched.append((replace(prompt, arrival_ns=arrived, ttft_ns=first_token - arrival), warmup))
            prompt = next(left, None)
    return [prompt for prompt, warmup in matched if not warmup] if matched else prompts


def _trimmed(prompts: Sequence[Prompt], work: Occupancy) -> Prefill:
    """Without the microbatches that ran while no prompt was prefilled, or that are not whole."""
    columns: list[int] = []
    stretches, moved = [], []
    for group in _overlapping(prompts, work):
        first, last = group[0].first, max(prompt.last for prompt in group)
        inside = first + np.flatnonzero(work.whole[first : last + 1])
        stretches.append((len(columns), len(columns) + len(inside)))
        for prompt in group:
            place = len(columns) + np.searchsorted(inside, [prompt.first, prompt.last])
            moved.append(replace(prompt, first=int(place[0]), last=int(place[1])))
        columns.extend(inside.tolist())
    return Prefill(work.only(np.array(columns, dtype=np.int64)), tuple(moved), tuple(stretches))


def _overlapping(prompts: Sequence[Prompt], work: Occupancy) -> Iterator[list[Prompt]]:
    """Prompts in groups between which the pipeline was empty."""
    done_ns = np.maximum.accumulate(work.end_ns.max(axis=0))
    group: list[Prompt] = []
    last = -1
    for prompt in sorted(prompts, key=lambda prompt: prompt.first):
        if group and prompt.first > last and _empty_between(work, done_ns, last, prompt.first):
            yield group
            group = []
        group.append(prompt)
        last = max(last, prompt.last)
    yield group


def _empty_between(work: Occupancy, done_ns: Longs, last: int, first: int) -> bool:
    """Whether, after one prompt's last microbatch, the pipeline drained before another's first began."""
    begins = work.begin_ns[0, last + 1 : first + 1]
    present = begins > 0
    return bool((present & (begins >= done_ns[last:first])).any())
