"""The last errors of this process, kept in case the command dies of them.

They are seen where they are raised, printed or logged, which goes on as before: a terminal, a pipe or a
file gets what it would have got. Each is a fact of its own name; the first few and the last few stay.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import fact, recording
from .hooks import Wrap, after, before, set_hook
from .imports import after_import

if TYPE_CHECKING:
    import logging

FACT_PREFIX = "last_words:"
#: Of one process: so many of its first errors are kept, and as many of its last ones.
MOST_FIRST = MOST_LAST = 8
#: Characters of an error; its end is kept.
LONGEST = 4000
#: After so many, one a second at most is written: an error in a loop must not fill the spool.
BURST = 32
_PAUSE_NS = 1_000_000_000
_ERROR_LEVEL = 40

_SECRET_NAME = re.compile(r".*(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)", re.IGNORECASE)
_SECRET_FLAG = re.compile(r"--?[\w-]*(?:api[-_]?key|token|passw(?:or)?d|secret)(?:=(.*))?", re.IGNORECASE)
_SECRET_FORM = re.compile(r"\b(?:hf_|sk-|gh[pousr]_|nvapi-)[\w-]{12,}")
_SHORTEST_SECRET = 8
_MARK = "[redacted]"

_told = 0
_next_ns = 0


def listen() -> None:
    """Note from now on what this process raises, prints and logs as an error, if it is to be recorded."""
    if recording.writer is None:
        return
    set_hook(sys, "excepthook", before(_raised))
    set_hook(threading, "excepthook", before(_raised_in_thread))
    after_import(
        {
            "argparse": lambda module: _set(module.ArgumentParser, "exit", before(_refused)),
            # By then it is decided, and no frame of ours stands in the stack that a handler may print.
            "logging": lambda module: _set(module.Logger, "filter", after(_logged)),
            "traceback": lambda module: _set(module, "print_exc", before(_printed)),
        }
    )


def _set(owner: Any, name: str, wrap: Wrap) -> None:
    set_hook(owner, name, wrap)


def tell(text: str) -> None:
    """Write down an error, without secrets."""
    global _told, _next_ns
    now = time.monotonic_ns()
    if _told >= BURST and now < _next_ns:
        return
    number = _told if _told < MOST_FIRST else MOST_FIRST + _told % MOST_LAST
    _told, _next_ns = _told + 1, now + _PAUSE_NS
    bare = _without(text[-LONGEST:], _secrets(os.environ, getattr(sys, "argv", ())))
    title = _title()
    fact(f"{FACT_PREFIX}{os.getpid()}:{number}", "\n".join(title + line for line in bare.splitlines()))


def _raised(kind: type[BaseException], error: BaseException, frames: TracebackType | None) -> None:
    if issubclass(kind, Exception):
        tell(_formatted(error))


def _raised_in_thread(arguments: threading.ExceptHookArgs) -> None:
    if arguments.exc_value is not None:
        _raised(arguments.exc_type, arguments.exc_value, arguments.exc_traceback)


def _printed(*_: object, **__: object) -> None:
    """`traceback.print_exc`, with which the processes of `multiprocessing` report what ends them."""
    error = sys.exc_info()[1]
    if isinstance(error, Exception):
        tell(_formatted(error))


def _logged(passes: object, _: logging.Logger, record: logging.LogRecord) -> None:
    if not passes or record.levelno < _ERROR_LEVEL:
        return
    error = record.exc_info[1] if record.exc_info else None
    tell(record.getMessage() + (f"\n{_formatted(error)}" if error is not None else ""))


def _refused(_: object, status: int = 0, message: str | None = None) -> None:
    """`argparse` prints what is wrong with the command line and ends."""
    if status and message:
        tell(message)


def _formatted(error: BaseException) -> str:
    import traceback

    return "".join(traceback.format_exception(type(error), error, error.__traceback__))


def _title() -> str:
    """ "(VLLM::Worker_PP1) " where the process was given a title, which then is in its command line."""
    try:
        with open("/proc/self/cmdline", "rb") as file:
            title = file.read(80).split(b"\0")[0].decode(errors="replace").strip()
    except OSError:
        return ""
    return f"({title}) " if "::" in title else ""


def _secrets(environment: Mapping[str, str], words: Sequence[str]) -> list[str]:
    """What this process was told and must not be repeated."""
    found = [value for name, value in environment.items() if _SECRET_NAME.fullmatch(name)]
    for word, following in zip(words, [*words[1:], ""], strict=True):
        flag = _SECRET_FLAG.fullmatch(word)
        if flag:
            found.append(flag[1] or following)
    return [secret for secret in found if len(secret) >= _SHORTEST_SECRET]


def _without(text: str, secrets: Sequence[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, _MARK)
    return _SECRET_FORM.sub(_MARK, text)
