"""Whether the processes of a recording mean the same by the number of a microbatch.

Some engines have no such number, and each process counts for itself. Where two engines ran, or one
process missed a batch, pairs and waits would be made up of different batches.
"""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from bubblescope.trace.model import Lost


def disagreements(spans: pd.DataFrame) -> Iterator[Lost]:
    """One entry if there are microbatches that hold different numbers of tokens on different devices.

    spans: schema SPANS.
    """
    told = spans[(spans["kind"] == "forward") & (spans["microbatch"] >= 0) & (spans["tokens"] >= 0)]
    different = int((told.groupby("microbatch")["tokens"].nunique() > 1).sum())
    if different:
        why = "their number stands for other tokens on another device, so who waited for whom may be wrong"
        yield Lost("microbatches that are not the same everywhere", why, different)
