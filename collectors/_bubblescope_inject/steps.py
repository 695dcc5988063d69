"""Steps of an engine's scheduler: a batch of tokens each, by which number all stages know it."""

from __future__ import annotations

from collections.abc import Iterable

#: Number, phase, tokens, prefix. A plain tuple, since engines send it to processes without this package.
Step = tuple[int, str, int, int]


def contents(rows: Iterable[tuple[int, int, int]]) -> tuple[str, int]:
    """Phase and prefix of a step; with several requests, the mean prefix of its tokens.

    rows: per request its new tokens, those computed before, those of its prompt.
    """
    prefills = decodes = tokens = weighted = 0
    for new, before, prompt in rows:
        if before < prompt:
            prefills += 1
        else:
            decodes += 1
        tokens += new
        weighted += new * before
    phase = "mixed" if prefills and decodes else "prefill" if prefills else "decode"
    return phase, weighted // max(tokens, 1)
