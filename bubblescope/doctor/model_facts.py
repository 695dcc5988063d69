"""What has to be known about a model to place it, whatever file tells it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Weights:
    """Bytes of the weights as they lie in the files.

    layers: of each layer. before, after: what the first and the last stage hold besides (embedding;
    norm and output). A checkpoint with tied embeddings has `after` hold the embedding once more.
    """

    layers: tuple[int, ...]
    before: int
    after: int

    @property
    def total(self) -> int:
        """Of the whole model over a pipeline."""
        return sum(self.layers) + self.before + self.after


@dataclass(frozen=True)
class ModelFacts:
    """A model; None where its files do not tell.

    format: a key of `bubblescope.doctor.formats.FORMATS`.
    experts: whether it has experts (MoE).
    kv_values: numbers kept in the KV cache for one token, of each layer.
    context: the longest context it was made for, in tokens.
    """

    name: str
    architecture: str | None = None
    format: str | None = None
    experts: bool = False
    layers: int | None = None
    kv_values: tuple[int, ...] | None = None
    context: int | None = None
    weights: Weights | None = None
