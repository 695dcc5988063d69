"""One thing that is to be said about a command or a rig."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Remark:
    """In one line.

    verdict: whether the launch "fails", or this only "warns".
    source: version and file in which it was read; "" where it is arithmetic.
    """

    verdict: Literal["fails", "warns"]
    text: str
    way_out: str
    source: str
