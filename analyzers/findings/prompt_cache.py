"""llama-server's prompt cache: the KV cache that it saves to host memory before it begins the next prompt.

Read in tools/server of b11434. A slot that takes a prompt with little in common with its last one first saves
the state of that one, for a prompt that may come again, and only then begins to count the prompt's time.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

import numpy as np

from bubblescope.analyzers import intervals as iv
from bubblescope.analyzers.findings.replay import WORTH
from bubblescope.analyzers.findings.ubatches import Longs, Ubatches
from bubblescope.analyzers.results import Analysis, Finding
from bubblescope.trace.frames import TIME_LIMIT


def prompt_cache(analysis: Analysis, found: Ubatches) -> Iterator[Finding]:
    """What saving costs a prompt, as a share of its prefill with the saving.

    Checkpoints within a prompt are saved by the same functions; they do not count. Where a state was
    restored, the cache has spared work, and how much the recording does not tell: then no flag is named.
    """
    command = analysis.trace.run.command
    if not any(PurePosixPath(word).name == "llama-server" for word in command):
        return
    spans = analysis.spans
    saves, restores = (spans[spans["kind"] == kind] for kind in ("save", "restore"))
    begin, end = _quiet_before(analysis, found)
    before = np.searchsorted(end, saves["end_ns"].to_numpy())
    saves = saves[saves["end_ns"].to_numpy() > np.append(begin, TIME_LIMIT)[before]]
    saving = iv.union(saves["begin_ns"].to_numpy(), saves["end_ns"].to_numpy())
    total_ns = int(iv.covered_between(saving, begin, end).sum())
    ns, gain = _per_prompt(analysis, found, total_ns)
    if gain <= WORTH:
        return
    told = saves.loc[saves["bytes"] > 0, "bytes"]
    size = f"{_in_units(float(told.median()), 'GB', 'MB')}, " if len(told) else ""
    text = (
        f"before a prompt the server saves the last KV cache to host memory ({size}"
        f"{_in_units(ns, 's', 'ms')} a prompt, not in its own timing)"
    )
    restored = int(restores["begin_ns"].between(*analysis.window_ns).sum())
    if restored:
        yield Finding("prompt-cache", ns, None, f"{text}; it restored {restored} from there")
        return
    text += "; none was used again, but without it one that comes again is computed anew"
    yield Finding("prompt-cache", ns, None, text, "--cache-ram 0", gain)


def _per_prompt(analysis: Analysis, found: Ubatches, total_ns: int) -> tuple[int, float]:
    """What saving costs a prompt in ns, and which share of the time would be gained without it.

    Prompts computed together cannot be told apart by their ubatches. Then those are counted that were asked
    for, and the share is that of all the time in which any was open.
    """
    begin, end = analysis.window_ns
    asked = sum(begin <= request.arrival_ns < end for request in analysis.requests)
    if asked <= found.prompts:
        ns = total_ns // found.prompts
        return ns, ns / max(ns + float(found.makespan_ns().mean()), 1.0)
    open_ns = int((analysis.bursts["end_ns"] - analysis.bursts["begin_ns"]).sum())
    return total_ns // asked, total_ns / max(open_ns, 1)


def _quiet_before(analysis: Analysis, found: Ubatches) -> tuple[Longs, Longs]:
    """(prompts,) each: begin and end of the time before each prompt, in the window, without any forward."""
    forwards = analysis.spans[analysis.spans["kind"] == "forward"]
    computing = iv.union(forwards["begin_ns"].to_numpy(), forwards["end_ns"].to_numpy())
    begins = np.array([found.begin_ns[found.of_prompt(number)][0] for number in range(found.prompts)])
    earlier = np.searchsorted(computing[:, 0], begins)
    ends = np.append(analysis.window_ns[0], computing[:, 1])[earlier]
    return np.maximum(ends, analysis.window_ns[0]), begins


def _in_units(number: float, large: str, small: str) -> str:
    """A number of bytes or nanoseconds in billions or millions."""
    return f"{number / 1e9:.1f} {large}" if number >= 1e9 else f"{number / 1e6:.1f} {small}"
