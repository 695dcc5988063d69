"""What the page's script gets, packed so that nothing in it can be taken for markup."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Sequence
from typing import Any

import orjson
import pandas as pd

from bubblescope.analyzers.results import STATES, Analysis
from bubblescope.report.html.detail import Level
from bubblescope.trace.frames import UNKNOWN


def packed(content: bytes) -> str:
    """Compressed, in letters, digits, "+", "/" and "=" only. The same content packs to the same text."""
    return base64.b64encode(gzip.compress(content, compresslevel=6, mtime=0)).decode("ascii")


def payload(
    analysis: Analysis,
    lanes: Sequence[str],
    levels: Sequence[Level],
    blames: Sequence[tuple[int, str]],
    offset_ns: int,
) -> bytes:
    """The timeline as JSON; times are nanoseconds from the begin of the window.

    lanes: their names. offset_ns: where the window begins on the page's own clock.
    """
    begin_ns, end_ns = analysis.window_ns
    document: dict[str, Any] = {
        "window": end_ns - begin_ns,
        "offset": offset_ns,
        "states": STATES,
        "lanes": lanes,
        "levels": [_level(level, len(lanes)) for level in levels],
        "blames": [[stage if stage != UNKNOWN else None, cause] for stage, cause in blames],
        "batches": _batches(analysis, levels),
    }
    return orjson.dumps(document)


def _level(level: Level, lanes: int) -> dict[str, Any]:
    """Columns of integers, made small: a begin counts from the one before, `rest` is what `ns` lacks."""
    table = level.table
    lengths = table["end_ns"] - table["begin_ns"]
    columns = {
        "step": table["begin_ns"].diff().fillna(table["begin_ns"]),
        "length": lengths,
        "rest": lengths - table["ns"],
        "state": table["state"],
        "batch": table["microbatch"],
        "blame": table["blame"],
        "count": table["count"],
    }
    per_lane = table["lane"].value_counts().reindex(range(lanes), fill_value=0)
    return {
        "cell": level.cell_ns,
        "rows": per_lane.tolist(),
        **{name: column.astype("int64").tolist() for name, column in columns.items()},
    }


def _batches(analysis: Analysis, levels: Sequence[Level]) -> dict[str, list[Any]]:
    """Phase, tokens and prefix of the microbatches that the levels name."""
    named = pd.concat([level.table["microbatch"] for level in levels]).unique()
    spans = analysis.spans[analysis.spans["microbatch"].isin(named[named >= 0])]
    first = spans.drop_duplicates("microbatch")
    return {
        str(row.microbatch): [str(row.phase), int(row.tokens), int(row.prefix)] for row in first.itertuples()
    }
