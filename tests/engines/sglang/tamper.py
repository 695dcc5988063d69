"""An SGLang plugin for tests: slows functions down. Copied beside metadata that makes SGLang load it.

TAMPER_SLEEPS: `module:Class.method=milliseconds`, comma separated: so long it sleeps before it works.
"""

import functools
import os
import sys
import time

from _bubblescope_inject.imports import after_import


def register() -> None:
    if getattr(sys, "_tampered", None) == os.getpid():
        return
    sys._tampered = os.getpid()  # type: ignore[attr-defined]
    for sleep in filter(None, os.environ.get("TAMPER_SLEEPS", "").split(",")):
        target, _, milliseconds = sleep.partition("=")
        module, _, method = target.partition(":")
        after_import({module: functools.partial(_slow, method=method, seconds=float(milliseconds) / 1e3)})


def _slow(module, method, seconds):  # type: ignore[no-untyped-def]
    of_class, _, name = method.rpartition(".")
    owner = getattr(module, of_class)
    function = getattr(owner, name)

    def slow(*args, **kwargs):  # type: ignore[no-untyped-def]
        time.sleep(seconds)
        return function(*args, **kwargs)

    setattr(owner, name, slow)
