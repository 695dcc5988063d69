"""Which core each stage has to itself, as each stage of an engine has a GPU."""

from __future__ import annotations

import os

_SIBLINGS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"


def cores_of_their_own(stages: int) -> list[int] | None:
    """A core for each stage, always the same ones; None if there are fewer cores than stages.

    Threads of one physical core slow each other down, so it has one stage, if there are enough.
    """
    allowed = sorted(os.sched_getaffinity(0))
    apart = sorted({_siblings(core): core for core in reversed(allowed)}.values())
    chosen = apart if len(apart) >= stages else allowed
    # The last ones: the first are apt to serve interrupts.
    return chosen[-stages:] if len(chosen) >= stages else None


def _siblings(core: int) -> str:
    """Names the physical core; the thread itself where the system does not tell."""
    try:
        with open(_SIBLINGS.format(core)) as file:
            return file.read()
    except OSError:
        return str(core)
