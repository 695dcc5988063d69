"""A recording with its verdict as one more lane per device, for a viewer that shows every kernel."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from bubblescope.analyzers.results import Analysis
from bubblescope.trace.frames import SLICES, TRACKS, UNKNOWN, checked
from bubblescope.trace.model import Trace

LANE = "bubblescope: state"


def with_states(analysis: Analysis) -> Trace:
    """The recording with the state of every moment as slices named for it, on a lane of each device.

    Read again it gives the same analysis: the slices are of category "other", which is no work.
    """
    trace, timeline = analysis.trace, analysis.timeline
    devices = sorted(timeline["device"].unique().tolist())
    lanes = pd.DataFrame({"device": devices, "process": "bubblescope", "lane": LANE, "kind": "stream"})
    track = {device: len(trace.tracks) + row for row, device in enumerate(devices)}
    states = pd.DataFrame(
        {
            "track": timeline["device"].map(track),
            "name": timeline["state"].astype(object),
            "category": "other",
            "begin_ns": timeline["begin_ns"],
            "end_ns": timeline["end_ns"],
            "correlation": UNKNOWN,
            "operation": "",
            "group": "",
            "peer": UNKNOWN,
            "bytes": UNKNOWN,
        }
    )
    return replace(
        trace,
        tracks=checked(TRACKS, _appended(trace.tracks, lanes)),
        slices=checked(SLICES, _appended(trace.slices, checked(SLICES, states))),
    )


def _appended(table: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Both, with text as plain strings, since their categories differ."""
    plain = [frame.astype(dict.fromkeys(frame.select_dtypes("category"), object)) for frame in (table, rows)]
    return pd.concat(plain, ignore_index=True) if len(table) else plain[1]
