"""What llama.cpp's own log tells, for a program that has ggml linked into it and no symbols.

Nothing that is loaded beside such a program finds its functions. Its log still names the layers' devices, the
parts of the graph, and whether it pipelines; no times, nothing of graphs that are reused. Only programs that
take llama.cpp's common options write it where they are told.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from bubblescope.trace.model import Lost

#: Below the spool.
NAME = "llama.log"
_UNKNOWN = "no times on devices, no copies, nothing of graphs that are reused"
LIMITS = (
    "{program} has llama.cpp linked into it, so only its log can be read: the layers of each device, the "
    "splits of the graph, whether it pipelines; " + _UNKNOWN + "; for that it prints more than it would"
)
PROGRAMS = ("llama-server", "llama-cli")
_LARGEST_LOG = 64 << 20

_LAYER = re.compile(r"layer +(\d+) assigned to device (\S+?)(?:,|$)")
_SPLIT = re.compile(r"## SPLIT #(\d+): (\S+) #")
_NUMBERS = {
    "llama_copies": re.compile(r"sched copies = (\d+)"),
    "llama_splits": re.compile(r"\bsplits = (\d+)"),
    "chunk_tokens": re.compile(r"\bn_ubatch += (\d+)"),
    "batch_tokens": re.compile(r"\bn_batch += (\d+)"),
}
_VERSION = re.compile(r"\bbuild: (\d+) ")


def environment(spool: Path) -> dict[str, str]:
    """What has such a program write its log into the spool folder."""
    return {
        "GGML_SCHED_DEBUG": "1",
        "LLAMA_ARG_LOG_FILE": str(spool / NAME),
        "LLAMA_ARG_LOG_VERBOSITY": "5",
    }


def facts_of(spool: Path) -> dict[str, Any]:
    """The facts that the log in a spool folder tells; none if there is no log."""
    try:
        with (spool / NAME).open("rb") as file:
            return facts(file.read(_LARGEST_LOG).decode("utf-8", "replace").splitlines())
    except OSError:
        return {}


def facts(lines: Iterable[str]) -> dict[str, Any]:
    """The facts of a log, under the names that the preloaded library gives them.

    What is said of several contexts counts as it was said last, and of graphs the one with most splits.
    """
    layers: dict[int, str] = {}
    told: dict[str, Any] = {}
    most = 0
    for line in lines:
        if found := _LAYER.search(line):
            layers[int(found[1])] = found[2]
        elif found := _SPLIT.search(line):
            most = max(most, int(found[1]) + 1)
        elif "pipeline parallelism enabled" in line:
            told["llama_pipelining"] = True
        elif "retrying without pipeline parallelism" in line:
            told["llama_pipelining"] = False
        else:
            told.update(_numbers(line))
    if most:
        told["llama_splits"] = most
    if told or layers:
        told = {"llama_pipelining": False, **told, **_held(layers), "llama_seen_by": "log"}
    return told


def lost(told: Mapping[str, Any]) -> Iterator[Lost]:
    """What a recording lacks of which nothing but the log was seen."""
    if told.get("llama_seen_by") == "log":
        yield Lost("device activity", f"only llama.cpp's log could be read: {_UNKNOWN}")


def _numbers(line: str) -> dict[str, Any]:
    for name, pattern in _NUMBERS.items():
        if found := pattern.search(line):
            return {name: int(found[1])}
    if found := _VERSION.search(line):
        return {"engine_version": f"b{found[1]}"}
    return {}


def _held(layers: Mapping[int, str]) -> dict[str, Any]:
    """The layers' devices; the last of the log's layers is the output layer."""
    if not layers or sorted(layers) != list(range(len(layers))):
        return {}
    *repeating, output = (layers[number] for number in range(len(layers)))
    on_devices = [name for name in repeating if name != "CPU"]
    held = {"partition": [on_devices.count(name) for name in dict.fromkeys(on_devices)]} if on_devices else {}
    return {**held, "llama_layer_devices": repeating, "llama_output_device": output}
