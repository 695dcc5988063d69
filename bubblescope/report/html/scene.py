"""What the page's script gets, packed so that nothing in it can be taken for markup."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from bubblescope.analyzers.grouping import grouped
from bubblescope.analyzers.results import STATES, Analysis
from bubblescope.report.html.detail import MOST_DRAWN, Level
from bubblescope.report.html.pieces import Blame
from bubblescope.report.html.timeline import Lane, lane_height
from bubblescope.report.waits import reason
from bubblescope.trace.frames import UNKNOWN

Longs = npt.NDArray[np.int64]


def packed(content: bytes) -> str:
    """Compressed, in letters, digits, "+", "/" and "=" only. The same content packs to the same text."""
    return base64.b64encode(gzip.compress(content, compresslevel=6, mtime=0)).decode("ascii")


def scene(
    analysis: Analysis,
    lanes: Sequence[Lane],
    levels: Sequence[Level],
    blames: Sequence[Blame],
    offset_ns: int,
) -> bytes:
    """What the script draws, as JSON; times are nanoseconds from the begin of the window.

    offset_ns: where the window begins on the page's own clock.
    """
    begin_ns, end_ns = analysis.window_ns
    named = np.unique(np.concatenate([level.table["microbatch"].to_numpy() for level in levels]))
    batches = named[named != UNKNOWN]
    document: dict[str, Any] = {
        "window": end_ns - begin_ns,
        "offset": offset_ns,
        "states": STATES,
        "lanes": [lane.name for lane in lanes],
        "height": lane_height(len(lanes)),
        "most": MOST_DRAWN,
        "levels": [_level(level, len(lanes), batches) for level in levels],
        "blames": [_blame(*blame) for blame in blames],
        "batches": _batches(analysis, batches),
        "layers": _layers(analysis, lanes, batches),
    }
    return orjson.dumps(document)


def _blame(stage: int, culprit: int, cause: str) -> tuple[str, int | None]:
    """In words, and the other stage that it waited for, if there is one and it is known."""
    known = None if culprit == UNKNOWN else culprit
    return reason(stage, known, cause), None if known == stage else known


def _level(level: Level, lanes: int, batches: Longs) -> dict[str, Any]:
    """Columns of integers, made small: a begin counts from the one before, `rest` is what `ns` lacks,
    `batch` is the position in `batches`, or UNKNOWN."""
    table = level.table
    batch = table["microbatch"]
    lengths = table["end_ns"] - table["begin_ns"]
    columns = {
        "step": table["begin_ns"].diff().fillna(table["begin_ns"]),
        "length": lengths,
        "rest": lengths - table["ns"],
        "state": table["state"],
        "batch": batch.where(batch == UNKNOWN, np.searchsorted(batches, batch)),
        "blame": table["blame"],
        "count": table["count"],
    }
    per_lane = table["lane"].value_counts().reindex(range(lanes), fill_value=0)
    return {
        "cell": level.cell_ns,
        "rows": per_lane.tolist(),
        **{name: column.astype("int64").tolist() for name, column in columns.items()},
    }


def _layers(analysis: Analysis, lanes: Sequence[Lane], batches: Longs) -> dict[str, tuple[int, ...]]:
    """Of each lane's share of a microbatch, where its layers are recorded one by one: how many there are,
    their time, the slowest one's number and time, and 1 if it is only the attention of each.

    The keys are lane and position in `batches`, as "0,7".
    """
    spans = analysis.spans
    parts = spans[spans["kind"].isin(["layer", "attention"]) & spans["microbatch"].isin(batches)]
    found: dict[str, tuple[int, ...]] = {}
    for lane, at in enumerate(lanes):
        own = parts[parts["device"] == at.device]
        own = own.assign(ns=own["end_ns"] - own["begin_ns"], at=np.searchsorted(batches, own["microbatch"]))
        for batch, rows in grouped(own, "at"):
            longest, slowest = max(zip(rows["ns"].tolist(), rows["layer_begin"].tolist(), strict=True))
            attention = bool((rows["kind"] == "attention").any())
            found[f"{lane},{batch[0]}"] = (len(rows), int(rows["ns"].sum()), slowest, longest, int(attention))
    return found


def _batches(analysis: Analysis, batches: Longs) -> list[tuple[str, str, int, int]]:
    """Number, phase, tokens and prefix of the microbatches, in their order."""
    spans = analysis.spans[analysis.spans["microbatch"].isin(batches)]
    first = spans.drop_duplicates("microbatch").sort_values("microbatch")
    columns = (first[name].tolist() for name in ("microbatch", "phase", "tokens", "prefix"))
    return [
        (str(number), phase, tokens, prefix) for number, phase, tokens, prefix in zip(*columns, strict=True)
    ]
