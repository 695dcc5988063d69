"""A burst of work unlike the others, which a look at the whole window mixes up with them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bubblescope.analyzers.results import Analysis

#: A burst that lasts so many times as long as another of like compute is unlike it.
_LONGER = 2.0
#: The compute of like bursts differs by less than this factor.
_LIKE = 1.5


def unlike(analysis: Analysis) -> str | None:
    """Which burst takes far longer than others that compute as much, and how to look at one of those.

    None where there is no such burst, or the window was asked for.
    """
    bursts = analysis.bursts
    if analysis.window_source == "flag" or len(bursts) < 2:
        return None
    lasts = (bursts["end_ns"] - bursts["begin_ns"]).to_numpy()
    compute = np.array([_compute_ns(analysis, *edges) for edges in _edges(analysis)])
    longest = int(lasts.argmax())
    like = (compute * _LIKE > compute[longest]) & (compute < compute[longest] * _LIKE)
    like[longest] = False
    if not like.any():
        return None
    # The usual one: of the like ones that with the middle length.
    numbers = np.flatnonzero(like)
    usual = int(numbers[lasts[numbers].argsort(kind="stable")[(len(numbers) - 1) // 2]])
    if lasts[longest] <= _LONGER * lasts[usual]:
        return None
    times = f"{lasts[longest] / max(lasts[usual], 1):.1f} times"
    noun, (odd, other) = _numbered(analysis, longest, usual)
    if odd is None or other is None:
        return None
    return (
        f"{noun.capitalize()} {odd} lasts {times} as long as {noun} {other} for about as much compute: "
        f"look at {noun} {other} alone with --window request:{other}."
    )


def _edges(analysis: Analysis) -> list[tuple[int, int]]:
    bursts = analysis.bursts
    return list(zip(bursts["begin_ns"].tolist(), bursts["end_ns"].tolist(), strict=True))


def _compute_ns(analysis: Analysis, begin_ns: int, end_ns: int) -> int:
    """Of all devices together."""
    rows = analysis.timeline[analysis.timeline["state"] == "compute"]
    begins: npt.NDArray[np.int64] = np.maximum(rows["begin_ns"].to_numpy(), begin_ns)
    return int(np.clip(np.minimum(rows["end_ns"].to_numpy(), end_ns) - begins, 0, None).sum())


def _numbered(analysis: Analysis, *bursts: int) -> tuple[str, list[int | None]]:
    """What `--window request:N` calls these bursts: by their own numbers, or by their first request's."""
    table = analysis.trace.requests
    arrivals = table.loc[~table["warmup"], "arrival_ns"].to_numpy()
    if not len(arrivals):
        return "burst", [number + 1 for number in bursts]
    edges = _edges(analysis)
    inside = [np.flatnonzero((arrivals >= edges[n][0]) & (arrivals < edges[n][1])) for n in bursts]
    return "request", [int(each[0]) + 1 if len(each) == 1 else None for each in inside]
