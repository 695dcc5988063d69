"""Messages of llama.cpp whose begin was seen too late.

Of a device that only lets itself be waited for, a thread tells when something happened, and may wake up
late. Of a message both ends are told by two threads, and no end of it is received before its begin is sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bubblescope.collectors._bubblescope_inject import layout
from bubblescope.record.spool import Process

#: A process that tells this recorded llama.cpp.
_FACT = "llama_device_times"
_SEND, _RECV = layout.KINDS.index("send"), layout.KINDS.index("recv")


def sent_in_time(processes: Sequence[Process]) -> list[Process]:
    """The processes with every send begun no later than its receive had ended."""
    return [_in_time(process) if _FACT in process.facts else process for process in processes]


def _in_time(process: Process) -> Process:
    spans = process.spans.copy()
    positions = np.full(max(process.stages, default=-1) + 1, layout.UNKNOWN)
    for number, stage in process.stages.items():
        positions[number] = stage.stage
    own, peer = positions[spans["stage"]], spans["peer"]
    ends = []
    for kind, source, target in ((_SEND, own, peer), (_RECV, peer, own)):
        rows = np.flatnonzero(spans["kind"] == kind)
        order = np.lexsort((spans["begin_ns"][rows], target[rows], source[rows], spans["microbatch"][rows]))
        rows = rows[order]
        ends.append((rows, spans["microbatch"][rows], source[rows], target[rows]))
    (sends, *of_send), (receives, *of_receive) = ends
    if len(sends) != len(receives) or any((a != b).any() for a, b in zip(of_send, of_receive, strict=True)):
        return process
    spans["begin_ns"][sends] = np.minimum(spans["begin_ns"][sends], spans["end_ns"][receives])
    return replace(process, spans=spans)
