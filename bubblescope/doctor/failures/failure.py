"""What is known of one way in which an engine dies."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Failure:
    """One known failure.

    id: for scripts. pattern: in the engine's own output, each within a few lines. It takes what it needs
    by name: `minimum` and `current` are compute capabilities without the dot, `gpu` is the number of a
    device on its host, others are quoted.
    what: the sentence about what happened; why, do: what follows it. All are format strings over the
    pattern's groups.
    source: version and file that raises it, or the public report in which it was seen.
    whole: the command as a whole is at fault, whichever device noticed it first.
    """

    id: str
    pattern: re.Pattern[str]
    what: str
    why: str
    do: str
    source: str
    whole: bool = False


def failure(id: str, pattern: str, what: str, why: str, do: str, source: str, whole: bool = False) -> Failure:
    """In a pattern a space stands for any blank between two words, as logs fold long lines."""
    return Failure(id, re.compile(pattern.replace(" ", r"\s{1,40}")), what, why, do, source, whole)
