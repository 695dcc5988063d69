"""Known ways in which an engine dies, as data: what it then says, and what that means.

Specific ones stand before general ones, and causes before what follows from them.
"""

from __future__ import annotations

from bubblescope.doctor.failures.communication import COMMUNICATION
from bubblescope.doctor.failures.failure import Failure
from bubblescope.doctor.failures.formats import FORMATS
from bubblescope.doctor.failures.memory import MEMORY
from bubblescope.doctor.failures.placement import PLACEMENT
from bubblescope.doctor.failures.start import START

__all__ = ["FAILURES", "Failure"]

FAILURES: tuple[Failure, ...] = (*FORMATS, *PLACEMENT, *MEMORY, *START, *COMMUNICATION)
