"""One recording from begin to end: the command, its spool, and the trace that comes of it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import bubblescope.collectors
from bubblescope.collectors._bubblescope_inject.spoolfile import boot_id
from bubblescope.collectors._bubblescope_inject.writer import (
    FOLDER_VARIABLE,
    KEEP_SECONDS_VARIABLE,
    MAX_BYTES_VARIABLE,
    Writer,
)
from bubblescope.errors import BubblescopeError, UsageError
from bubblescope.record.command_line import engine_of
from bubblescope.record.destination import Destination, destination
from bubblescope.record.launch import OWN_FAILURE, CommandError, run_command
from bubblescope.record.messages import Messages
from bubblescope.trace.source import shown

_NOT_INSTRUMENTED = "no process of the command has a collector in it, or none did any work"
_NO_ROOM = "no file could be written beside the trace; the disk is full, or the folder was removed"


class RecordingError(BubblescopeError):
    """Recording failed for a reason of our own."""

    def __init__(self, message: str) -> None:
        super().__init__(message, OWN_FAILURE)


@dataclass(frozen=True)
class Limits:
    """How much of a recording is kept: bytes in the spool, and the last seconds only."""

    max_bytes: int
    keep_seconds: int | None = None


def record(
    command: Sequence[str],
    output: str | None,
    limits: Limits,
    messages: Messages,
    append: bool = False,
    force: bool = False,
) -> int:
    """Record a command; returns its exit status, or 125 if it succeeded and the recording did not.

    Raises RecordingError, status 125, if recording cannot begin, and CommandError, status 126 or
    127, if the command cannot be started.
    """
    try:
        where = destination(output, append, force)
        _check_same_clock(where)
        spool = where.make_spool()
    except (BubblescopeError, OSError) as error:
        raise RecordingError(_reason(error)) from None

    def tell_what_is_known() -> None:
        try:
            _tell(spool, limits, _known(command, limits))
        except Exception as error:  # the command runs on, and is recorded, without these facts
            messages.say(_reason(error))

    messages.say(f"recording into {shown(where.trace)}")
    try:
        status = run_command(command, _environment(spool, limits), tell_what_is_known)
    except CommandError:
        shutil.rmtree(spool, ignore_errors=True)
        raise
    _tell(spool, limits, {"exit_status": status})
    return _finished(spool, where, status, messages)


def _check_same_clock(destination: Destination) -> None:
    """Refuse to append where the times of the two recordings would not be on one clock."""
    if not (destination.append and destination.trace.exists()):
        return
    from bubblescope.record.join import clock_id
    from bubblescope.trace.read import read_trace

    if clock_id(read_trace(destination.trace)) != boot_id().decode():
        raise UsageError(
            f"cannot append to {shown(destination.trace)}: it was not recorded on this host since the host "
            "was started, so the times would not be comparable; choose another file"
        )


def _environment(spool: Path, limits: Limits) -> dict[str, str]:
    """What the command finds: our own environment, where the collectors are, where they shall write."""
    collectors = str(Path(bubblescope.collectors.__file__).parent)
    path = os.environ.get("PYTHONPATH")
    environment = {
        **os.environ,
        "PYTHONPATH": f"{collectors}{os.pathsep}{path}" if path else collectors,
        FOLDER_VARIABLE: str(spool),
        MAX_BYTES_VARIABLE: str(limits.max_bytes),
    }
    environment.pop(KEEP_SECONDS_VARIABLE, None)
    if limits.keep_seconds is not None:
        environment[KEEP_SECONDS_VARIABLE] = str(limits.keep_seconds)
    return environment


def _known(command: Sequence[str], limits: Limits) -> dict[str, object]:
    from bubblescope.record.assemble import KEEP_SECONDS_FACT
    from bubblescope.trace.model import Run, Trace
    from bubblescope.trace.redact import redacted

    facts = {
        "command": redacted(Trace(Run(command=tuple(command)))).run.command,
        "engine": engine_of(command),
        KEEP_SECONDS_FACT: limits.keep_seconds,
    }
    return {name: value for name, value in facts.items() if value is not None}


def _tell(spool: Path, limits: Limits, facts: dict[str, object]) -> None:
    """Write facts into the spool, as a collector would, and let go of the file."""
    writer = Writer(str(spool), limits.max_bytes, None)
    for name, value in facts.items():
        writer.add_fact(name, json.dumps(value))


def _finished(spool: Path, where: Destination, status: int, messages: Messages) -> int:
    """Make the trace; the spool stays if that fails."""
    from bubblescope.record.merge import (
        MergeInterruptedError,
        interruptible,
        merge,
        summary,
        wait_for_writers,
    )
    from bubblescope.record.spool import NothingRecordedError

    kept = f"`bubblescope merge {shown(where.spool)}` makes a trace of what was recorded"
    try:
        with interruptible(lambda: messages.say("merging the recording; once more Ctrl-C stops that")):
            wait_for_writers(spool)
            trace = merge([spool], where, messages.doing)
    except MergeInterruptedError:
        messages.say(f"interrupted before the trace was written; {kept}")
        return status or OWN_FAILURE
    except NothingRecordedError:
        written = spool.is_dir() and any(spool.iterdir())
        messages.say(f"nothing was recorded: {_NOT_INSTRUMENTED if written else _NO_ROOM}")
        status = status or (0 if written else OWN_FAILURE)
    except Exception as error:
        messages.say(f"{_reason(error)}; {kept}")
        return status or OWN_FAILURE
    else:
        messages.say(f"{summary(trace)} in {shown(where.trace)}")
    shutil.rmtree(spool, ignore_errors=True)
    return status


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, BubblescopeError) else f"{type(error).__name__}: {error}"
