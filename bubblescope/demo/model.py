"""A decoder-only transformer with random weights, and the part of it that one stage holds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]
Tokens = npt.NDArray[np.int64]

_SEED = 2026


@dataclass(frozen=True)
class Shape:
    """Sizes of the model, in the words of a model's config; `context` is the longest prompt."""

    layers: int
    hidden_size: int = 256
    heads: int = 4
    intermediate_size: int = 1024
    vocabulary: int = 1024
    context: int = 2048


class Layer:
    """Causal attention over everything seen so far, then a feed-forward network."""

    def __init__(self, shape: Shape, number: int) -> None:
        hidden, inner = shape.hidden_size, shape.intermediate_size
        random = np.random.default_rng([_SEED, number])
        self._projections = _weights(random, hidden, 3 * hidden)
        self._output = _weights(random, hidden, hidden)
        self._up = _weights(random, hidden, inner)
        self._down = _weights(random, inner, hidden)
        self._heads = shape.heads
        self._size = hidden // shape.heads
        # Filled, so that the memory is there beforehand and not taken page by page by the first prompt.
        self._keys = np.full((shape.heads, self._size, shape.context), 0, np.float32)
        self._values = np.full((shape.heads, shape.context, self._size), 0, np.float32)

    def forward(self, x: Array, prefix: int) -> Array:
        """`x` is tokens × hidden; `prefix` tokens of the same prompt went before."""
        attended: Array = x + self._attention(_normalized(x), prefix) @ self._output
        inner = _normalized(attended) @ self._up
        result: Array = attended + np.maximum(inner, 0, out=inner) @ self._down
        return result

    def _attention(self, x: Array, prefix: int) -> Array:
        count = len(x)
        end = prefix + count
        split = (x @ self._projections).reshape(count, 3, self._heads, self._size)
        queries, keys, values = split.transpose(1, 2, 0, 3)
        self._keys[:, :, prefix:end] = keys.transpose(0, 2, 1)
        self._values[:, prefix:end] = values
        later = np.triu(np.full((count, count), -np.inf, np.float32), 1)
        mixed = np.empty((count, self._heads, self._size), np.float32)
        # Head by head in one place, so that the scores stay in the core's own cache: what other
        # cores do to a shared one then hardly matters.
        scores = np.empty((count, end), np.float32)
        for head in range(self._heads):
            np.matmul(queries[head] * np.float32(self._size**-0.5), self._keys[head, :, :end], out=scores)
            scores[:, prefix:] += later
            scores -= scores.max(axis=-1, keepdims=True)
            np.exp(scores, out=scores)
            mixed[:, head] = scores @ self._values[head, :end] / scores.sum(axis=-1, keepdims=True)
        return mixed.reshape(count, -1)


class Part:
    """The layers of one stage; the first stage also embeds, the last one has the head."""

    def __init__(self, shape: Shape, begin: int, end: int) -> None:
        self._layers = [Layer(shape, number) for number in range(begin, end)]
        if begin == 0:
            random = np.random.default_rng([_SEED, shape.layers])
            self._embedding = _weights(random, shape.vocabulary, shape.hidden_size) * 16
        if end == shape.layers:
            random = np.random.default_rng([_SEED, shape.layers + 1])
            self._head = _weights(random, shape.hidden_size, shape.vocabulary)

    def embed(self, tokens: Tokens) -> Array:
        embedded: Array = self._embedding[tokens]
        return embedded

    def forward(self, x: Array, prefix: int) -> Array:
        for layer in self._layers:
            x = layer.forward(x, prefix)
        return x

    def head(self, x: Array) -> Array:
        """The logits after the last token of `x`."""
        logits: Array = _normalized(x[-1:]) @ self._head
        return logits

    def sample(self, logits: Array) -> int:
        return int(logits[0].argmax())


def prompt(shape: Shape, number: int, tokens: int) -> Tokens:
    """The tokens of request `number`, always the same."""
    return np.random.default_rng([_SEED, shape.layers + 2, number]).integers(shape.vocabulary, size=tokens)


def _weights(random: np.random.Generator, rows: int, columns: int) -> Array:
    return random.standard_normal((rows, columns), np.float32) * np.float32(rows**-0.5)


def _normalized(x: Array) -> Array:
    result: Array = x / np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + np.float32(1e-6))
    return result
