"""After a crash: what happened, on which device, why, and what to do."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from bubblescope.collectors._bubblescope_inject.last_words import FACT_PREFIX
from bubblescope.doctor.explanation import Device as Sought
from bubblescope.doctor.explanation import explain, last_error
from bubblescope.errors import NotATraceError, UsageError
from bubblescope.record import merge, tables
from bubblescope.record.spool import Process, read_spool
from bubblescope.trace.model import Device
from bubblescope.trace.secret_text import without_secrets

#: What was said so long before the last words has nothing to do with them.
_RECENT_NS = 300_000_000_000
_CUT_OFF = "how the command ended was not recorded;"


def failure(spool: Path, status: int, printed: str, starved: int = 0) -> dict[str, object]:
    """Why a command ended with this status, as a fact of the run.

    {"explanation": one paragraph, "known": the failure's id or null, "line": the engine's own words or null,
    "source": where they are known from or "", "devices": positions in the run's devices}

    spool: holds its processes' own last words. printed: the end of its output, as far as known.
    starved: processes of this machine that the kernel ended meanwhile because memory ran out.
    """
    processes = _processes(spool)
    words = "\n".join(last_words(processes))
    recorded = tables.devices(processes).devices
    # The words last: of a text the end is looked at, and what was printed may be long.
    known = explain(f"{printed}\n{words}", recorded or _cards())
    if known is not None:
        devices = list(known.devices) if recorded else []
        return _fact(known.text, known.line, known.id, known.source, devices)
    line = last_error(words) or last_error(printed)
    return _fact(_unknown(status, line, starved), line, None, "", [])


def cut_off(spool: Path) -> dict[str, object] | None:
    """What a command of which the recorder did not see the end, having been killed, said of its failure.

    A fact as `failure` gives it. None where the recorder saw the end, where a process still runs, and where
    no error was seen. An error that was seen need not have ended the command; so the text says.
    """
    processes = _processes(spool)
    if any(process.running or "exit_status" in process.facts for process in processes):
        return None
    words = "\n".join(last_words(processes))
    devices = tables.devices(processes).devices
    known = explain(words, devices)
    if known is not None:
        text = f"{_CUT_OFF} one of its errors is known. {known.text}"
        return _fact(text, known.line, known.id, known.source, list(known.devices))
    line = last_error(words)
    return None if line is None else _fact(f"{_CUT_OFF} its own last error: {line}", line, None, "", [])


def last_words(processes: Sequence[Process]) -> list[str]:
    """What the processes wrote down of their own errors, in order of time, the recent ones."""
    told = sorted(_told(processes))
    return [text for time_ns, text in told if time_ns >= told[-1][0] - _RECENT_NS]


def _told(processes: Sequence[Process]) -> Iterator[tuple[int, str]]:
    for process in processes:
        for name, (time_ns, text) in process.facts.items():
            if name.startswith(FACT_PREFIX):
                with contextlib.suppress(ValueError):
                    value = json.loads(text)
                    if isinstance(value, str):
                        yield time_ns, value


def _processes(spool: Path) -> list[Process]:
    try:
        merge.wait_for_writers(spool)  # a worker may say why it failed after the command has ended
        return read_spool(str(spool))[0]
    except (OSError, NotATraceError):
        return []


def _cards() -> Sequence[Sought]:
    """This machine's cards, for a command that died before it told which it uses."""
    try:
        from bubblescope.doctor.nvml import local_rig
        from bubblescope.doctor.rig import spread

        rig = spread(local_rig(os.environ))
    except (ImportError, UsageError):
        return ()
    return [
        Device(name=part.device, capability=".".join(map(str, part.capability)) if part.capability else None)
        for part in rig
    ]


def _unknown(status: int, line: str | None, starved: int) -> str:
    text = f"the command ended with status {status}"
    if status > 128:
        with contextlib.suppress(ValueError):
            text += f" ({signal.Signals(status - 128).name})"
    if starved:
        text += f" while the kernel ended {starved} of this machine's processes because memory ran out"
    if line is None:
        return (
            f"{text}, and none of its own errors was seen; what it printed can be explained from a file: "
            "`bubblescope doctor --log FILE`"
        )
    why = "though its load could not be done" if status == 0 else "for a reason that is not known here"
    return f"{text}, {why}; its own last error: {line}"


def _fact(
    text: str, line: str | None, known: str | None, source: str, devices: list[int]
) -> dict[str, object]:
    taken: Counter[str] = Counter()
    return {
        "explanation": without_secrets(text, taken),
        "line": None if line is None else without_secrets(line, taken),
        "known": known,
        "source": source,
        "devices": devices,
    }
