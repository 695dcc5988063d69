"""Why an engine died, from its own output."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from bubblescope.doctor.failures import FAILURES, Failure

#: An engine's last words stand at the end; what is before is not looked at.
LONGEST_OUTPUT = 1 << 20
LONGEST_LINE = 300
MOST_LINES = 2000

#: How the engines' logs name a pipeline stage: "(Worker_PP1_TP0 pid=…)", "[2026-01-01 PP1 TP0]".
_STAGE = re.compile(r"\bPP([0-9]{1,3})\b|_PP([0-9]{1,3})(?=_|\b)")
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_RAISED = re.compile(r"\b(?:\w{1,60}\.){0,8}\w{0,60}(?:Error|Exception)\b: .*")
#: What processes say of the failure of another one; the cause stands elsewhere.
_FOLLOWS = re.compile(
    r"(?:[Ss]ee|check) (?:the )?(?:root cause|stack trace)|died unexpectedly|Connection closed by peer"
    r"|EngineDeadError|from a child process|CancelledError|failed to start\.$"
)
_REPORTED = re.compile(r".*\b(?:error|ERROR|fatal|GGML_ASSERT)\b.*")


class Device(Protocol):
    """What is needed of a device of a recording (`bubblescope.trace.model.Device`)."""

    @property
    def stage(self) -> int | None: ...
    @property
    def ordinal(self) -> int | None: ...
    @property
    def name(self) -> str | None: ...
    @property
    def capability(self) -> str | None: ...


@dataclass(frozen=True)
class Explanation:
    """A known failure in this run.

    id: of the failure. text: one paragraph: what happened, on which device, why, what to do.
    line: the engine's own words. devices: positions in the list of devices, as far as they are told.
    source: where that message comes from.
    """

    id: str
    text: str
    line: str
    devices: tuple[int, ...]
    source: str


def explain(output_text: str, devices: Sequence[Device]) -> Explanation | None:
    """The known failure that the end of an engine's output shows, or None.

    Of several the most specific counts, and of several of that kind the first: the others follow from it.
    """
    text = _ANSI.sub("", output_text[-LONGEST_OUTPUT:])
    for failure in FAILURES:
        found = failure.pattern.search(text)
        if found:
            return _explanation(failure, found, text, devices)
    return None


def last_error(output_text: str) -> str | None:
    """The engine's own last error, for a failure that is not known; None where it names none.

    One that only follows from another process's counts where there is no other.
    """
    text = _ANSI.sub("", output_text[-LONGEST_OUTPUT:])
    lines = [line[:LONGEST_LINE] for line in text.splitlines()[-MOST_LINES:]]
    for pattern in (_RAISED, _REPORTED):
        found = [match[0] for match in map(pattern.search, lines) if match]
        causes = [line for line in found if not _FOLLOWS.search(line)]
        if found:
            return (causes or found)[-1].strip()
    return None


def _explanation(failure: Failure, found: re.Match[str], text: str, devices: Sequence[Device]) -> Explanation:
    groups = {name: value or "nothing more" for name, value in found.groupdict().items()}
    begin = text.rfind("\n", 0, found.start()) + 1
    stage = None if failure.whole else _stage(text[begin : found.end()])
    affected = _affected(groups, stage, devices)
    for name in ("minimum", "current"):
        if name in groups:
            groups[name] = _dotted(groups[name])
    where = _where(affected, groups.get("gpu"), stage, devices)
    what, why, do = (part.format_map(groups) for part in (failure.what, failure.why, failure.do))
    line = " ".join(found[0].split())[:LONGEST_LINE]
    return Explanation(failure.id, f"{what}{where}: {why}. What to do: {do}.", line, affected, failure.source)


def _stage(quoted: str) -> int | None:
    """The stage that the prefix of a line names."""
    found = _STAGE.search(quoted)
    return int(found[1] or found[2]) if found else None


def _affected(groups: Mapping[str, str], stage: int | None, devices: Sequence[Device]) -> tuple[int, ...]:
    """The devices of the capability or the number that the message names, else of its line's stage."""
    every = range(len(devices))
    if "current" in groups:
        same = tuple(at for at in every if devices[at].capability == _dotted(groups["current"]))
        if same:
            return same
    if "gpu" in groups:
        number = int(groups["gpu"])
        numbers = [at if devices[at].ordinal is None else devices[at].ordinal for at in every]
        return tuple(at for at in every if numbers[at] == number)
    return tuple(at for at in every if stage is not None and devices[at].stage == stage)


def _where(affected: Sequence[int], gpu: str | None, stage: int | None, devices: Sequence[Device]) -> str:
    if affected:
        return f" on {_names(affected, devices)}"
    if gpu is not None:
        return f" on GPU {gpu}"
    return "" if stage is None else f" on stage {stage}"


def _names(affected: Sequence[int], devices: Sequence[Device]) -> str:
    """GPU numbers and their names, each name once."""
    names = dict.fromkeys(devices[at].name for at in affected)
    known = " and ".join(name for name in names if name)
    numbers = ", ".join(map(str, affected))
    return f"GPU {numbers} ({known})" if known else f"GPU {numbers}"


def _dotted(digits: str) -> str:
    """ "8.9" for "89"."""
    return f"{digits[:-1]}.{digits[-1]}" if digits.isdecimal() and len(digits) > 1 else digits
