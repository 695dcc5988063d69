"""What llama.cpp's host does for each ubatch, and what of it a prompt's prefill is longer by."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from bubblescope.analyzers.findings.replay import WORTH, Replay
from bubblescope.analyzers.results import Finding


def costs(played: Replay, pipelining: bool, devices: list[str]) -> Iterator[Finding]:
    """One finding for each thing that the host does at all, large or small."""
    spans = played.found.spans
    embeddings = spans[(spans["kind"] == "embed") & (spans["bytes"] >= 0)]
    filled = spans[(spans["kind"] == "embed") & (spans["bytes"] < 0)]
    copies = spans[(spans["kind"] == "copy") & (spans["peer"] < 0)]
    on_cpu = spans[spans["kind"] == "split"]
    if len(embeddings):
        yield _embedding(played, embeddings, pipelining, devices)
        yield from _wasted(played, embeddings, copies, pipelining)
    for name, rows, what in (
        ("graph-building", spans[spans["kind"] == "schedule"], "the host builds the graph"),
        ("input-filling", filled, "the host fills in inputs, the attention mask being the largest"),
        ("input-copies", copies, "inputs and results are copied between the CPU and the devices"),
        ("cpu-splits", on_cpu, "parts of the model run on the CPU between the devices"),
    ):
        if len(rows):
            text = f"{what}: {_times(rows, played)}, {_host_ms(rows, played)} per prompt"
            yield Finding(name, _in_the_way_ns(played, rows, pipelining), None, text)


def _embedding(played: Replay, rows: pd.DataFrame, pipelining: bool, devices: list[str]) -> Finding:
    """A flag moves it to a device, and turns pipelining off: it is for one device only."""
    ns = _in_the_way_ns(played, rows, pipelining)
    text = f"the CPU looks up the token embeddings: {_host_ms(rows, played)} per prompt"
    if len(devices) != 1:
        off = "the flag that moves them to a device turns pipelining off"
        return Finding("cpu-embedding", ns, 0, f"{text}; {off}")
    gain = ns / played.makespan_ns
    flag = rf"-ot 'token_embd\.weight={devices[0]}'"
    return Finding("cpu-embedding", ns, 0, text, *((flag, gain) if gain > WORTH else ()))


def _wasted(
    played: Replay, embeddings: pd.DataFrame, copies: pd.DataFrame, pipelining: bool
) -> Iterator[Finding]:
    """Copies to the first device of the embeddings' size: only one of them is the embeddings.

    Another input can have that size by chance at one length of the prompt: what most ubatches have counts.
    """
    size = embeddings.groupby("microbatch")["bytes"].max()
    alike = copies[(copies["stage"] == 0) & (copies["bytes"] == copies["microbatch"].map(size))]
    extra = int(alike.groupby("microbatch").size().reindex(played.found.ids, fill_value=0).median()) - 1
    if extra < 1:
        return
    wasted = alike[alike.groupby("microbatch").cumcount() < extra]
    text = (
        f"{extra} of {extra + 1} copies as large as the embeddings go to the first device with every ubatch, "
        f"and nothing needs them: {_host_ms(wasted, played)} per prompt; no flag avoids that"
    )
    yield Finding("wasted-copies", _in_the_way_ns(played, wasted, pipelining), 0, text)


def _in_the_way_ns(played: Replay, rows: pd.DataFrame, pipelining: bool) -> int:
    """What a prompt would take less without these spans.

    Where ubatches follow each other through the devices, the host works while they do, and only playing
    the schedule again tells. Else what counts is the time in which no device computed.
    """
    if pipelining:
        return max(round(played.saved(played.without(rows)) * played.makespan_ns), 0)
    return played.found.alone_ns(rows)


def _times(rows: pd.DataFrame, played: Replay) -> str:
    times = len(rows) / len(played.found.ids)
    return "once per ubatch" if round(times, 1) == 1 else f"{times:.3g} times per ubatch"


def _host_ms(rows: pd.DataFrame, played: Replay) -> str:
    per_prompt = float((rows["end_ns"] - rows["begin_ns"]).sum()) / played.found.prompts
    return f"{per_prompt / 1e6:.3g} ms of the host"
