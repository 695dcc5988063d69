"""One recording from begin to end: the command, its spool, and the trace that comes of it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import bubblescope.collectors
from bubblescope.collectors._bubblescope_inject import parts
from bubblescope.collectors._bubblescope_inject.spoolfile import NoRoomError, boot_id
from bubblescope.collectors._bubblescope_inject.writer import (
    FOLDER_VARIABLE,
    KEEP_SECONDS_VARIABLE,
    MAX_BYTES_VARIABLE,
    Writer,
)
from bubblescope.errors import BubblescopeError, UsageError
from bubblescope.record import disk, llama_log, plugins
from bubblescope.record.command_line import engine_of
from bubblescope.record.destination import Destination, destination
from bubblescope.record.ending import FAILURE_FACT, Ending
from bubblescope.record.kernels import ASKED_FACT, NOT_LOADED, Injection, injection
from bubblescope.record.launch import OWN_FAILURE, CommandError, run_command
from bubblescope.record.messages import Messages
from bubblescope.record.preload import preload
from bubblescope.trace.source import shown

if TYPE_CHECKING:
    from bubblescope.load.plan import Load
    from bubblescope.record.driving import Driver
    from bubblescope.record.nvml_sampler import Sampler

#: How a server ends that was driven and then ended by us, unless it takes a signal as no reason to fail.
_ENDED_BY_US = (128 + signal.SIGINT, 128 + signal.SIGTERM)


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
    load: Load | None = None,
    detail: str = parts.STAGES,
    kernels: bool = False,
    nvml_hz: float = 0,
) -> int:
    """Record a command; returns its exit status, or 125 if it succeeded and the recording did not.

    detail: "layers" has collectors record the parts of a forward, too, else "stages".
    kernels: have CUDA load the library that records every kernel.
    nvml_hz: how often a second clocks, power and temperature of the cards are sampled; 0 for never.
    With a load, the command is a server: it is driven with it, and then ended.

    Raises RecordingError, status 125, if recording cannot begin, and CommandError, status 126 or
    127, if the command cannot be started.
    """
    try:
        driver = _driver(load, command, messages)
        where = destination(output, append, force)
        _check_same_clock(where)
        spool = where.make_spool()
    except (BubblescopeError, OSError) as error:
        raise RecordingError(_reason(error)) from None

    injected = injection(os.environ) if kernels else Injection()
    if injected.why_not:
        messages.say(f"--kernels: {injected.why_not}")
    preloaded = preload(command, os.environ)
    if preloaded.why_not:
        messages.say(preloaded.why_not)

    own_facts = Writer(str(spool), limits.max_bytes, None)
    with contextlib.suppress(NoRoomError):
        own_facts.next_file(own_facts.file)  # as long as there is room

    def begin() -> None:
        try:
            asked = {ASKED_FACT: injected.why_not} if kernels else {}
            _tell(own_facts, {**_known(command, limits, detail), **asked})
        except Exception as error:  # the command runs on, and is recorded, without these facts
            messages.say(_reason(error))
        if driver is not None:
            driver.start(Writer(str(spool), limits.max_bytes, None))
        if sampler is not None:
            sampler.start(Writer(str(spool), limits.max_bytes, None))

    try:
        environment = {**_environment(spool, limits, detail), **injected.environment, **preloaded.environment}
        if preloaded.logs:
            environment = {**llama_log.environment(spool), **environment}
    except OSError as error:
        shutil.rmtree(spool, ignore_errors=True)
        raise RecordingError(f"cannot record into {shown(where.spool)}: {error.strerror}") from None
    messages.say(f"recording into {shown(where.trace)}")
    ending = Ending()

    def asked_to_end() -> None:
        ending.asked()
        if driver is not None:
            driver.give_up()

    def ended() -> None:
        if driver is not None:
            driver.command_ended()
        if sampler is not None:
            sampler.stop()

    sampler = _sampler(nvml_hz, messages)
    try:
        status = run_command(command, environment, begin, asked_to_end, ended)
    except CommandError:
        shutil.rmtree(spool, ignore_errors=True)
        raise
    driven = {} if driver is None or driver.measured is None else {"window_ns": driver.measured.window_ns}
    facts = {**llama_log.facts_of(spool), "exit_status": status, **driven}
    if driven and status in _ENDED_BY_US:
        status = 0
    full = disk.is_full(spool)
    facts |= {disk.FULL_FACT: True} if full else {}
    failure = ending.failure(spool, status, in_vain=driver is not None and driver.failure is not None)
    _tell(own_facts, facts if failure is None else {**facts, FAILURE_FACT: failure})
    own_facts.start()  # lets go of its file, so that nobody waits for us
    status = _finished(spool, where, status, full, messages)
    if failure is not None:
        messages.say(str(failure["explanation"]))
    return status or (OWN_FAILURE if driver is not None and driver.failure else 0)


def _driver(load: Load | None, command: Sequence[str], messages: Messages) -> Driver | None:
    if load is None:
        return None
    from bubblescope.load.plan import url_of
    from bubblescope.record.driving import Driver

    url = load.url or url_of(command, engine_of(command))
    driver = Driver(replace(load, url=url), messages.say)
    driver.check()
    return driver


def _sampler(hz: float, messages: Messages) -> Sampler | None:
    if not hz:
        return None
    try:
        from bubblescope.record.nvml_sampler import Sampler
    except Exception as error:  # packages of other makes and ages are called `pynvml`, too
        messages.say(f"clocks, power and temperature are not recorded: {_reason(error)}")
        return None
    return Sampler(hz)


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


def _environment(spool: Path, limits: Limits, detail: str) -> dict[str, str]:
    """What the command finds: our own environment, where the collectors are, where they shall write."""
    collectors = str(Path(bubblescope.collectors.__file__).parent)
    paths = (str(plugins.write(spool)), collectors, os.environ.get("PYTHONPATH"))
    ours = ("PYTHONPATH", FOLDER_VARIABLE, MAX_BYTES_VARIABLE, KEEP_SECONDS_VARIABLE, parts.VARIABLE)
    environment = {
        **os.environ,
        **plugins.environment(os.environ, ours),
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        FOLDER_VARIABLE: str(spool),
        MAX_BYTES_VARIABLE: str(limits.max_bytes),
        parts.VARIABLE: detail,
    }
    environment.pop(KEEP_SECONDS_VARIABLE, None)
    if limits.keep_seconds is not None:
        environment[KEEP_SECONDS_VARIABLE] = str(limits.keep_seconds)
    return environment


def _known(command: Sequence[str], limits: Limits, detail: str) -> dict[str, object]:
    from bubblescope.record.assemble import KEEP_SECONDS_FACT
    from bubblescope.record.detail import ASKED_FACT
    from bubblescope.trace.model import Run, Trace
    from bubblescope.trace.redact import redacted

    facts = {
        "command": redacted(Trace(Run(command=tuple(command)))).run.command,
        "engine": engine_of(command),
        KEEP_SECONDS_FACT: limits.keep_seconds,
        ASKED_FACT: detail if detail != parts.STAGES else None,
    }
    return {name: value for name, value in facts.items() if value is not None}


def _tell(writer: Writer, facts: dict[str, object]) -> None:
    """Write facts into the spool, as a collector would."""
    for name, value in facts.items():
        writer.add_fact(name, json.dumps(value))


def _finished(spool: Path, where: Destination, status: int, full: bool, messages: Messages) -> int:
    """Make the trace; the spool stays if that fails. full: so is the disk."""
    from bubblescope.record import hooks, merge
    from bubblescope.record.nothing import why_nothing
    from bubblescope.record.spool import NothingRecordedError

    if not merge.is_spool(spool):
        shutil.rmtree(spool, ignore_errors=True)
        messages.say(f"nothing was recorded: {shown(where.spool)} is gone, or the disk is full")
        return status or OWN_FAILURE
    kept = f"`bubblescope merge {shown(where.spool)}` makes a trace of what was recorded"
    try:
        with merge.interruptible(lambda: messages.say("merging the recording; once more Ctrl-C stops that")):
            merge.wait_for_writers(spool)
            merged = merge.merge([spool], where, messages.doing)
    except NothingRecordedError:
        messages.say(f"nothing was recorded: {why_nothing(spool)}")
        status = status or (OWN_FAILURE if full else 0)
    except merge.MergeInterruptedError:
        messages.say(f"interrupted before the trace was written; {kept}")
        return status or OWN_FAILURE
    except Exception as error:
        messages.say(f"{_reason(error)}; {kept}")
        return status or OWN_FAILURE
    else:
        size = where.trace.stat().st_size
        for lost in merged.lost:
            if lost.what in (hooks.WHAT, disk.WHAT):
                messages.say(lost.why)
            elif lost.why == NOT_LOADED:
                messages.say(f"--kernels: {lost.why}")
        messages.say(f"{merge.summary(merged.trace)} in {shown(where.trace)}, {_shown_size(size)}")
    shutil.rmtree(spool, ignore_errors=True)
    return status


def _shown_size(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 10**6 else f"{size / 1e3:.1f} kB"


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, BubblescopeError) else f"{type(error).__name__}: {error}"
