"""Models as files, made small: only what is read of them."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

#: 4 layers; K and V of 2 heads of 16 are 64 numbers a token and layer.
LLAMA: Mapping[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "num_hidden_layers": 4,
    "hidden_size": 128,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "max_position_embeddings": 1000,
    "torch_dtype": "bfloat16",
}


def write_config(folder: Path, config: Mapping[str, Any] = LLAMA, **more: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**config, **more}))
    return folder


def write_safetensors(path: Path, sizes: Mapping[str, int]) -> None:
    """The header of a file that holds tensors of these sizes in bytes, without their contents."""
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, size in sizes.items():
        header[name] = {"dtype": "U8", "shape": [size], "data_offsets": [at, at + size]}  # type: ignore[dict-item]
        at += size
    encoded = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(encoded)) + encoded)


def write_gguf(path: Path, values: Mapping[str, Any], tensors: Sequence[tuple[str, int, int]]) -> None:
    """A file with these values and tensors: name, type of ggml, bytes."""
    body = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(values))
    for key, value in values.items():
        body += _string(key) + _value(value)
    at = 0
    for name, kind, size in tensors:
        body += _string(name) + struct.pack("<IQIQ", 1, size, kind, at)
        at += size
    body += bytes(-len(body) % 32)
    path.write_bytes(body + bytes(at))


def _string(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _value(value: Any) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", 8) + _string(value)
    if isinstance(value, list) and value and isinstance(value[0], str):
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(_string, value))
    if isinstance(value, list):
        return struct.pack(f"<IIQ{len(value)}i", 9, 5, len(value), *value)
    return struct.pack("<II", 4, value)
