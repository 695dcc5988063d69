"""The prompts of a llama.cpp recording, ubatch by ubatch: what the host did for each, and the devices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bubblescope.analyzers import intervals as iv
from bubblescope.analyzers.results import Analysis

#: So many prompts are looked at, the first ones: later ones tell nothing new.
MOST_PROMPTS = 16
#: A prompt of fewer tokens than this share of the longest is a warm-up, or what follows on one.
_SHORT = 0.5
#: What the host does for a ubatch, apart from waiting.
_HOST = ("schedule", "embed", "split", "copy", "sample")
#: How far the times of devices and the host may be apart.
APART_NS = 100_000

Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Ubatches:
    """S stages × M ubatches, prompt after prompt, in the order in which they were begun.

    spans: all spans of these ubatches. ids: (M,), their microbatch. prompt: (M,), counted from 0.
    tokens: (M,). begin_ns, end_ns: (M,), of the host's work on it; end_ns is where it turns to the next one,
        and in a prompt's last ubatch where the last device ends.
    first_ns, done_ns: (S, M), of the devices' work on it, sends included; busy_ns: (S, M), how much that is.
    waited_ns: (M,), for how long the host waited for devices meanwhile.
    drained: (M,), the graph was reused and the host first waited until all devices were done.
    """

    spans: pd.DataFrame
    ids: Longs
    prompt: Longs
    tokens: Longs
    begin_ns: Longs
    end_ns: Longs
    first_ns: Longs
    done_ns: Longs
    busy_ns: Longs
    waited_ns: Longs
    drained: Flags

    @property
    def prompts(self) -> int:
        return int(self.prompt[-1]) + 1

    def of_prompt(self, number: int) -> slice:
        """Its columns."""
        first, end = np.searchsorted(self.prompt, [number, number + 1])
        return slice(int(first), int(end))

    def makespan_ns(self) -> Longs:
        """(prompts,): from the host's first work on a prompt to the last device's end."""
        parts = [self.of_prompt(number) for number in range(self.prompts)]
        return np.array([self.done_ns[:, part].max() - self.begin_ns[part][0] for part in parts], np.int64)

    def total_ns(self, rows: pd.DataFrame) -> Longs:
        """(M,): how long the given ones of its spans take in each ubatch, in all."""
        return _total(rows, self.ids)

    def alone_ns(self, rows: pd.DataFrame) -> int:
        """For how long of the given spans no device computed, per prompt."""
        forwards = self.spans[self.spans["kind"] == "forward"]
        computing, asked = (
            iv.union(part["begin_ns"].to_numpy(), part["end_ns"].to_numpy()) for part in (forwards, rows)
        )
        return iv.total(iv.subtract(asked, computing)) // self.prompts


def ubatches(analysis: Analysis) -> Ubatches | None:
    """The whole prompts inside the window; None where there is none."""
    spans = analysis.spans
    stages = [stage.stage for stage in analysis.stages] or sorted(set(spans["stage"].tolist()))
    begin, end = analysis.window_ns
    spans = spans[spans["microbatch"] >= 0]
    forwards = spans[spans["kind"] == "forward"]
    forwards = forwards[(forwards["begin_ns"] >= begin) & (forwards["end_ns"] <= end)]
    if not len(forwards):
        return None
    found = forwards.groupby("microbatch").agg(
        tokens=("tokens", "max"), prefix=("prefix", "max"), stages=("stage", "nunique"),
        decode=("phase", lambda phases: bool((phases == "decode").any())),
        first=("begin_ns", "min"), done=("end_ns", "max"),
    )  # fmt: skip
    found = _prompts(found[~found["decode"]].sort_index(), len(stages))
    return _measured(spans[spans["microbatch"].isin(found.index)], found, stages) if len(found) else None


def _prompts(found: pd.DataFrame, stages: int) -> pd.DataFrame:
    """The ubatches of the first whole prompts of full length, with the prompt's number."""
    number = (found["prefix"] == 0).cumsum()
    of_prompt = found.groupby(number)
    length = of_prompt["tokens"].sum()
    whole = (of_prompt["stages"].min() == stages) & (of_prompt["prefix"].min() == 0)
    kept = length.index[whole & (length >= _SHORT * length[whole].max())][:MOST_PROMPTS]
    found = found.assign(prompt=number)[number.isin(kept)]
    return found.assign(prompt=np.searchsorted(kept.to_numpy(), found["prompt"].to_numpy()))


def _measured(spans: pd.DataFrame, found: pd.DataFrame, stages: list[int]) -> Ubatches:
    ids = found.index.to_numpy(dtype=np.int64)
    earliest = spans[spans["kind"].isin(_HOST)].groupby("microbatch")["begin_ns"].min()
    begin = earliest.reindex(ids).fillna(found["first"]).to_numpy(dtype=np.int64)
    done = found["done"].to_numpy(dtype=np.int64)
    prompt = found["prompt"].to_numpy(dtype=np.int64)
    last = np.append(prompt[1:] != prompt[:-1], True)
    end = np.where(last, done, np.append(begin[1:], 0))
    waits = spans[spans["kind"] == "sync"]
    waiting = iv.union(waits["begin_ns"].to_numpy(), waits["end_ns"].to_numpy())
    built = np.isin(ids, spans.loc[spans["kind"] == "schedule", "microbatch"])
    first_ns, done_ns, busy_ns = _on_devices(spans, stages, ids)
    return Ubatches(
        spans=spans, ids=ids, prompt=prompt, tokens=found["tokens"].to_numpy(dtype=np.int64),
        begin_ns=begin, end_ns=end, first_ns=first_ns, done_ns=done_ns, busy_ns=busy_ns,
        waited_ns=iv.covered_between(waiting, begin, end),
        drained=~built & _after_all(begin, done, ~last) & _woken(begin, waits["end_ns"].to_numpy()),
    )  # fmt: skip


def _on_devices(spans: pd.DataFrame, stages: list[int], ids: Longs) -> tuple[Longs, Longs, Longs]:
    """(S, M) each: first begin, last end, and total of forwards and sends."""
    work = spans[spans["kind"].isin(("forward", "send"))]
    work = work.assign(ns=work["end_ns"] - work["begin_ns"])
    cells = work.groupby(["stage", "microbatch"]).agg({"begin_ns": "min", "end_ns": "max", "ns": "sum"})
    first, done, busy = (
        cells[name].unstack("microbatch", fill_value=0).reindex(index=stages, columns=ids, fill_value=0)
        for name in ("begin_ns", "end_ns", "ns")
    )
    return first.to_numpy(np.int64), done.to_numpy(np.int64), busy.to_numpy(np.int64)


def _after_all(begin: Longs, done: Longs, followed: Flags) -> Flags:
    """(M,): whether a ubatch was begun only when the devices were done with the one before in its prompt."""
    return np.append(False, (begin[1:] + APART_NS >= done[:-1]) & followed[:-1])


def _woken(begin: Longs, waited_until: Longs) -> Flags:
    """(M,): whether a wait ended just before a ubatch was begun."""
    ends = np.append(np.sort(waited_until), np.iinfo(np.int64).max)
    return np.asarray(ends[np.searchsorted(ends, begin - APART_NS)] <= begin)


def _total(rows: pd.DataFrame, ids: Longs) -> Longs:
    taken = (rows["end_ns"] - rows["begin_ns"]).groupby(rows["microbatch"]).sum()
    return taken.reindex(ids, fill_value=0).to_numpy(dtype=np.int64)
