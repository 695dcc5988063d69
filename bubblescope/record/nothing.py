"""Why a recording holds nothing, as far as it tells."""

from __future__ import annotations

from pathlib import Path

import orjson

from bubblescope.record import activity, disk
from bubblescope.record.kernels import NOT_LOADED
from bubblescope.record.spool import NothingRecordedError, read_spool

_LAYERS_FACT = "llama_layer_devices"
_NO_COLLECTOR = "no process of the command has a collector in it, or none did any work"
_CPU_ALONE = (
    "llama.cpp computed on the CPU alone, which is no stage of a pipeline; -ngl gives layers to devices"
)


def why_nothing(spool: Path) -> str:
    """The reason, for a spool folder in which no process wrote an event."""
    try:
        processes, _ = read_spool(str(spool))
        if any(disk.FULL_FACT in process.facts for process in processes):
            return disk.NOTHING
        told = [process.facts[_LAYERS_FACT][1] for process in processes if _LAYERS_FACT in process.facts]
        alone = any(set(orjson.loads(devices)) == {"CPU"} for devices in told)
    except (NothingRecordedError, ValueError, TypeError):
        return _NO_COLLECTOR
    if alone:
        return _CPU_ALONE
    unloaded = any(lost.why == NOT_LOADED for lost in activity.losses(processes))
    return f"{_NO_COLLECTOR}; --kernels: {NOT_LOADED}" if unloaded else _NO_COLLECTOR
