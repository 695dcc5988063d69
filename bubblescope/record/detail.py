"""What a recording lacks of the detail that was asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from bubblescope.collectors._bubblescope_inject.parts import ATTENTION, FACT, LAYERS, STAGES
from bubblescope.trace.model import Lost

#: By this fact `record` tells the merge that `--detail layers` was asked for.
ASKED_FACT = "detail_asked"

_NOTHING_SEEN = "the engine's collector does not record them"
_WHY = {
    ATTENTION: "the model is compiled, so of each layer only the attention is recorded",
    STAGES: "neither they nor their attention could be found in the engine's model",
}


def missing_detail(facts: Mapping[str, Any], spans: pd.DataFrame) -> Iterator[Lost]:
    """Which parts of forwards (schema SPANS) are not there although they were asked for."""
    if facts.get(ASKED_FACT) != LAYERS:
        return
    told = facts.get(FACT)
    if told != LAYERS:
        yield Lost("layers one by one", _WHY.get(str(told), _NOTHING_SEEN))
    key = ["device", "microbatch"]
    forwards = spans.loc[spans["kind"] == "forward", key].drop_duplicates()
    seen = spans.loc[spans["kind"].isin(["layer", "attention"]), key].drop_duplicates()
    whole = len(forwards) - len(forwards.merge(seen, on=key))
    if whole and len(seen):
        why = "their steps ran as one CUDA graph each, so only the stage as a whole is recorded"
        yield Lost("parts of forwards", why, whole)
