"""The findings of one recording, the largest first."""

from __future__ import annotations

from collections.abc import Iterator

from bubblescope.analyzers.findings.launch_bound import launch_bound
from bubblescope.analyzers.findings.llama_costs import costs
from bubblescope.analyzers.findings.llama_devices import without_layers
from bubblescope.analyzers.findings.llama_pipelining import drained_by_reuse, small_ubatches, switched_off
from bubblescope.analyzers.findings.prompt_cache import prompt_cache
from bubblescope.analyzers.findings.replay import COPIES, replay
from bubblescope.analyzers.findings.ubatches import ubatches
from bubblescope.analyzers.results import Analysis, Finding


def findings(analysis: Analysis) -> tuple[Finding, ...]:
    """What the engine's own ways cost; of llama.cpp nothing where no prompt was recorded whole."""
    of_engine = _of_llama_cpp(analysis) if analysis.trace.run.engine == "llama.cpp" else ()
    return tuple(sorted((*of_engine, *launch_bound(analysis)), key=lambda each: -each.ns))


def _of_llama_cpp(analysis: Analysis) -> Iterator[Finding]:
    found = ubatches(analysis)
    if found is None:
        return
    facts = analysis.trace.run.facts
    pipelining = facts.get("llama_pipelining") is True
    copies = facts.get("llama_copies")
    played = replay(found, copies if type(copies) is int and copies > 0 else COPIES if pipelining else 1)
    names = [device.name or "" for device in analysis.trace.run.devices]
    yield from costs(played, pipelining, names)
    yield from switched_off(played, facts)
    yield from prompt_cache(analysis, found)
    if pipelining:
        yield from drained_by_reuse(played)
        yield from small_ubatches(played, facts)
        yield from without_layers(analysis, played)
    yield from _split(analysis)


def _split(analysis: Analysis) -> Iterator[Finding]:
    """The advised split, beside what else there is to change."""
    advised = analysis.recommendation
    now, then = advised.makespan_ns, advised.predicted_makespan_ns
    if advised.partition is not None and now and then is not None:
        yield Finding("layer-split", now - then, None, advised.reason, advised.words, 1 - then / now)
