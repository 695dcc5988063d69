"""Where the layers of a stage can be seen one by one.

A hook in a compiled model would be compiled, or break that. Attention is called from outside of what
is compiled, so it can be seen there too, unless the whole step runs as one CUDA graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..parts import Part
from .facts import compilation

#: What does the work of an attention layer, by kind: plain, latent, linear.
_ATTENTION = ("impl.forward", "forward_impl", "_forward_core")


def layers(inner: Any, config: Any) -> Iterator[Part]:
    """The layers of this stage; none where the model is compiled. `inner` is the module that holds them."""
    if inner is not None and compilation(config) == "none":
        for number in range(inner.start_layer, inner.end_layer):
            yield inner.layers[number], "forward", number


def attention(inner: Any, config: Any) -> Iterator[Part]:
    """The attention of each layer of this stage, as the engine finds it by name."""
    if inner is None:
        return
    for name, layer in config.compilation_config.static_forward_context.items():
        number = next((int(word) for word in name.split(".") if word.isdecimal()), -1)
        if inner.start_layer <= number < inner.end_layer:
            yield from _work(layer, number)


def _work(layer: Any, number: int) -> Iterator[Part]:
    for path in _ATTENTION:
        of, _, name = path.rpartition(".")
        owner = getattr(layer, of, None) if of else layer
        if hasattr(owner, name):
            yield owner, name, number
            return
