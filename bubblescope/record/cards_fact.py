"""The name under which the sampler tells the merge of its cards; who merges needs no driver's library."""

from __future__ import annotations

#: Which cards the samples are of, or why there are none.
CARDS_FACT = "cards"
