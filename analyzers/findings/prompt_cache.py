"""llama-server's prompt cache: the KV cache that it saves to host memory before it begins the next prompt.

Read in tools/server of b11434. A slot that takes a prompt with little in common with its last one first saves
the state of that one, for a prompt that may come again, and only then begins to count the prompt's time.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

import numpy as np

from bubblescope.analyzers import intervals as iv
from bubblescope.analyzers.activity import state_copies
from bubblescope.analyzers.findings.replay import WORTH
from bubblescope.analyzers.findings.ubatches import Longs, Ubatches
from bubblescope.analyzers.results import Analysis, Finding


def prompt_cache(analysis: Analysis, found: Ubatches) -> Iterator[Finding]:
    """What saving costs a prompt, as a share of its prefill with the saving.

    Checkpoints within a prompt are saved by the same functions; they do not count. Where a state was
    restored, the cache has spared work, and how much the recording does not tell: then no flag is named.
    """
    command = analysis.trace.run.command
    if not any(PurePosixPath(word).name == "llama-server" for word in command):
        return
    forwards = analysis.spans[analysis.spans["kind"] == "forward"]
    computing = iv.union(forwards["begin_ns"].to_numpy(), forwards["end_ns"].to_numpy())
    quiet, begins = _before(analysis, found, computing)
    copying = iv.subtract(state_copies(analysis.spans), computing)
    ns = int(iv.covered_between(copying, quiet, begins).sum()) // found.prompts
    gain = ns / max(ns + float(found.makespan_ns().mean()), 1.0)
    if gain <= WORTH:
        return
    copies = analysis.spans[analysis.spans["kind"].isin(("save", "restore"))]
    prompt = np.searchsorted(begins, copies["end_ns"].to_numpy())
    within = prompt < len(begins)
    within[within] = copies["begin_ns"].to_numpy()[within] >= quiet[prompt[within]]
    saves, restores = (copies[within & (copies["kind"] == kind)] for kind in ("save", "restore"))
    size, taken = _size(saves["bytes"].sum() / found.prompts), _time(ns)
    text = (
        f"before a prompt the server saves the last one's KV cache to host memory ({size}, {taken}, "
        "not in its own timing)"
    )
    if len(restores):
        yield Finding("prompt-cache", ns, None, f"{text}; it restored {len(restores)} from there")
        return
    text += "; none was used again, but without it one that comes again is computed anew"
    yield Finding("prompt-cache", ns, None, text, "--cache-ram 0", gain)


def _before(analysis: Analysis, found: Ubatches, computing: iv.Intervals) -> tuple[Longs, Longs]:
    """(prompts,) each: the time before each prompt in which no device computes, within the window."""
    begins = np.array([found.begin_ns[found.of_prompt(number)][0] for number in range(found.prompts)])
    earlier = np.searchsorted(computing[:, 0], begins)
    ends = np.append(analysis.window_ns[0], computing[:, 1])[earlier]
    quiet = np.clip(ends, analysis.window_ns[0], begins)
    return quiet, begins


def _time(ns: int) -> str:
    return f"{ns / 1e9:.2g} s" if ns >= 1e9 else f"{ns / 1e6:.2g} ms"


def _size(count: float) -> str:
    return f"{count / 1e9:.2g} GB" if count >= 1e9 else f"{count / 1e6:.2g} MB"
