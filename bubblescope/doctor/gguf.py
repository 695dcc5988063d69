"""The header of a GGUF file: what the model is and how large its parts are."""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from bubblescope.doctor.model_facts import ModelFacts, Weights
from bubblescope.errors import UsageError

LARGEST_HEADER = 256 << 20
MOST_ENTRIES = 1_000_000
MOST_PARTS = 1024

_PART = re.compile(r"-[0-9]{5}-of-([0-9]{5})\.gguf$")
_LAYER = re.compile(r"blk\.([0-9]{1,5})\.")
#: struct formats of the scalar types by their number; 8 is a string, 9 an array.
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
#: Types of ggml that decide how a card computes; all others are blocks of integers.
_TYPES = {1: "fp16", 30: "gguf-bf16", 39: "gguf-mxfp4", 40: "gguf-nvfp4"}
_FP32 = 0

#: Name, type of ggml and bytes of one tensor.
Tensor = tuple[str, int, int]


class _BrokenError(Exception):
    """The bytes are no GGUF header."""


def gguf_facts(path: Path) -> ModelFacts:
    """What a GGUF file, or the first of several parts, tells; UsageError where it is none."""
    try:
        parts = [_header(part) for part in _parts(path)]
    except (_BrokenError, struct.error):
        raise UsageError(f"{path}: not a GGUF file, or its header is cut off") from None
    except FileNotFoundError as missing:
        raise UsageError(f"{missing.filename}: this part of the model is missing") from None
    values = parts[0][0]
    tensors = [tensor for _, found in parts for tensor in found]
    name = values.get("general.architecture")
    layers = _number(values, f"{name}.block_count")
    return ModelFacts(
        name=str(path),
        architecture=name if isinstance(name, str) else None,
        format=_format(tensors),
        experts=bool(_number(values, f"{name}.expert_count")),
        layers=layers,
        kv_values=_kv_values(values, str(name), layers),
        context=_number(values, f"{name}.context_length"),
        weights=_weights(tensors, layers),
    )


def _parts(path: Path) -> list[Path]:
    found = _PART.search(path.name)
    if found is None:
        return [path]
    count = min(int(found[1]), MOST_PARTS)
    stem = path.name[: found.start()]
    return [path.with_name(f"{stem}-{number:05}-of-{count:05}.gguf") for number in range(1, count + 1)]


def _header(path: Path) -> tuple[Mapping[str, Any], list[Tensor]]:
    with path.open("rb") as file:
        reader = _Reader(file)
        if reader.take(4) != b"GGUF" or reader.scalar("I") not in (2, 3):
            raise _BrokenError
        tensors, entries = reader.scalar("Q"), reader.scalar("Q")
        if max(tensors, entries) > MOST_ENTRIES:
            raise _BrokenError
        values = {reader.string(): reader.value(reader.scalar("I")) for _ in range(entries)}
        infos = [_info(reader) for _ in range(tensors)]
        align = _number(values, "general.alignment") or 32
        end = path.stat().st_size - -(-reader.done // align) * align
    return values, _sizes(infos, end)


def _info(reader: _Reader) -> tuple[str, int, int]:
    """Name, type and offset of one tensor."""
    name = reader.string()
    dimensions = reader.scalar("I")
    if dimensions > 8:
        raise _BrokenError
    reader.take(8 * dimensions)
    return name, reader.scalar("I"), reader.scalar("Q")


def _sizes(infos: list[tuple[str, int, int]], end: int) -> list[Tensor]:
    """Bytes of each tensor: up to where the next one begins."""
    ordered = sorted(infos, key=lambda info: info[2])
    ends = [*(offset for _, _, offset in ordered[1:]), end][: len(ordered)]
    return [
        (name, kind, max(0, stop - offset)) for (name, kind, offset), stop in zip(ordered, ends, strict=True)
    ]


class _Reader:
    """Little-endian values from a file, within the bound on a header."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.done = 0

    def take(self, size: int) -> bytes:
        self.done += size
        if self.done > LARGEST_HEADER:
            raise _BrokenError
        data = self._file.read(size)
        if len(data) < size:
            raise _BrokenError
        return data

    def scalar(self, kind: str) -> Any:
        return struct.unpack("<" + kind, self.take(struct.calcsize("<" + kind)))[0]

    def string(self) -> str:
        return self.take(self.scalar("Q")).decode(errors="replace")

    def value(self, kind: int) -> Any:
        """A scalar or string; of an array only a tuple of its numbers, or None."""
        if kind == _STRING:
            return self.string()
        if kind != _ARRAY:
            return self.scalar(self._format(kind))
        inner, count = self.scalar("I"), self.scalar("Q")
        if inner == _STRING:
            for _ in range(count):
                self.take(self.scalar("Q"))
            return None
        one = self._format(inner)
        data = self.take(count * struct.calcsize("<" + one))
        return struct.unpack(f"<{count}{one}", data) if count <= 100_000 else None

    def _format(self, kind: int) -> str:
        if kind not in _SCALARS:
            raise _BrokenError
        return _SCALARS[kind]


def _number(values: Mapping[str, Any], key: str) -> int | None:
    value = values.get(key)
    return value if isinstance(value, int) and 0 < value < 1 << 32 else None


def _format(tensors: list[Tensor]) -> str | None:
    """By the type that most of the bytes have; norms and the like are FP32 in every file."""
    sizes: Counter[int] = Counter()
    for _, kind, size in tensors:
        sizes[kind] += size
    del sizes[_FP32]
    return _TYPES.get(sizes.most_common(1)[0][0], "gguf") if sizes else None


def _kv_values(values: Mapping[str, Any], name: str, layers: int | None) -> tuple[int, ...] | None:
    """Numbers in the KV cache for one token, of each layer."""
    heads = values.get(f"{name}.attention.head_count_kv")
    key, value = (_number(values, f"{name}.attention.{part}_length") for part in ("key", "value"))
    if key is None or value is None:
        width, all_heads = (
            _number(values, f"{name}.embedding_length"),
            _number(values, f"{name}.attention.head_count"),
        )
        if width is None or all_heads is None:
            return None
        key = value = width // all_heads
    if layers is None or layers > 10_000:
        return None
    if isinstance(heads, tuple) and len(heads) == layers and all(isinstance(one, int) for one in heads):
        return tuple(one * (key + value) for one in heads)
    return (heads * (key + value),) * layers if isinstance(heads, int) else None


def _weights(tensors: list[Tensor], layers: int | None) -> Weights | None:
    if layers is None or layers > 10_000:
        return None
    per_layer, before, after = [0] * layers, 0, 0
    for name, _, size in tensors:
        layer = _LAYER.match(name)
        if layer and int(layer[1]) < layers:
            per_layer[int(layer[1])] += size
        elif name.startswith("token_embd."):
            before += size
        else:
            after += size
    return Weights(tuple(per_layer), before, after)
