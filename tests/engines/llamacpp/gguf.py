"""Models with random weights as GGUF files: architecture `llama` or `qwen3`, weights in F16.

As a program: `python gguf.py FILE key=value …` with the fields of `Shape`.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import BinaryIO

import numpy as np

_F32, _F16 = 0, 1
_U32, _I32, _FLOAT, _BOOL, _STRING, _ARRAY = 4, 5, 6, 7, 8, 9
_ALIGNMENT = 32
#: Kinds of tokens.
_NORMAL, _UNKNOWN, _CONTROL, _BYTE = 1, 2, 3, 6


@dataclass(frozen=True)
class Shape:
    """The size of a model. `head_size` times `heads` need not be `width`."""

    architecture: str = "llama"
    layers: int = 8
    width: int = 64
    inner: int = 128
    heads: int = 4
    kv_heads: int = 2
    head_size: int = 16
    vocabulary: int = 1024
    context: int = 65536


#: A tensor: its name, its rows (None: a vector, of ones in F32) and its columns.
_Tensor = tuple[str, int | None, int]


def write(path: Path, shape: Shape) -> Path:
    """Write a model of this shape and return its path. The same shape makes the same file."""
    tensors = list(_tensors(shape))
    facts = list(_facts(shape))
    with path.open("wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(facts)))
        for name, value in facts:
            file.write(_string(name) + value)
        offset = 0
        for name, rows, columns in tensors:
            sizes = (columns,) if rows is None else (columns, rows)
            file.write(_string(name) + struct.pack(f"<I{len(sizes)}Q", len(sizes), *sizes))
            file.write(struct.pack("<IQ", _F32 if rows is None else _F16, offset))
            offset += _padded(_bytes(rows, columns))
        file.write(bytes(_padded(file.tell()) - file.tell()))
        # The same random numbers over and over: making new ones for gigabytes takes minutes.
        noise = (np.random.default_rng(0).standard_normal(1 << 20) * 0.02).astype(np.float16)
        for _, rows, columns in tensors:
            _write_weights(file, noise, rows, columns)
    return path


def _write_weights(file: BinaryIO, noise: np.ndarray[tuple[int], np.dtype[np.float16]], rows: int | None,
                   columns: int) -> None:  # fmt: skip
    if rows is None:
        file.write(np.ones(columns, dtype=np.float32).tobytes())
    else:
        whole, rest = divmod(rows * columns, len(noise))
        for _ in range(whole):
            file.write(noise.data)
        file.write(noise[:rest].data)
    size = _bytes(rows, columns)
    file.write(bytes(_padded(size) - size))


def _tensors(shape: Shape) -> Iterator[_Tensor]:
    yield "token_embd.weight", shape.vocabulary, shape.width
    yield "output_norm.weight", None, shape.width
    yield "output.weight", shape.vocabulary, shape.width
    queries, keys = shape.heads * shape.head_size, shape.kv_heads * shape.head_size
    for layer in range(shape.layers):
        block: list[_Tensor] = [
            ("attn_norm", None, shape.width), ("ffn_norm", None, shape.width),
            ("attn_q", queries, shape.width), ("attn_k", keys, shape.width), ("attn_v", keys, shape.width),
            ("attn_output", shape.width, queries), ("ffn_gate", shape.inner, shape.width),
            ("ffn_up", shape.inner, shape.width), ("ffn_down", shape.width, shape.inner),
        ]  # fmt: skip
        if shape.architecture == "qwen3":
            block += [("attn_q_norm", None, shape.head_size), ("attn_k_norm", None, shape.head_size)]
        for name, rows, columns in block:
            yield f"blk.{layer}.{name}.weight", rows, columns


def _facts(shape: Shape) -> Iterator[tuple[str, bytes]]:
    yield "general.architecture", _typed_string(shape.architecture)
    yield "general.name", _typed_string("random")
    numbers = {
        "context_length": shape.context, "embedding_length": shape.width, "block_count": shape.layers,
        "feed_forward_length": shape.inner, "attention.head_count": shape.heads,
        "attention.head_count_kv": shape.kv_heads, "attention.key_length": shape.head_size,
        "attention.value_length": shape.head_size, "rope.dimension_count": shape.head_size,
        "vocab_size": shape.vocabulary,
    }  # fmt: skip
    for name, number in numbers.items():
        yield f"{shape.architecture}.{name}", struct.pack("<II", _U32, number)
    yield f"{shape.architecture}.rope.freq_base", struct.pack("<If", _FLOAT, 10000.0)
    yield f"{shape.architecture}.attention.layer_norm_rms_epsilon", struct.pack("<If", _FLOAT, 1e-5)
    tokens = list(_tokens(shape.vocabulary))
    yield "tokenizer.ggml.model", _typed_string("llama")
    yield "tokenizer.ggml.tokens", _array(_STRING, [_string(text) for text, _ in tokens])
    yield "tokenizer.ggml.scores", _array(_FLOAT, [struct.pack("<f", -at) for at in range(len(tokens))])
    yield "tokenizer.ggml.token_type", _array(_I32, [struct.pack("<i", kind) for _, kind in tokens])
    for name, number in (("unknown", 0), ("bos", 1), ("eos", 2)):
        yield f"tokenizer.ggml.{name}_token_id", struct.pack("<II", _U32, number)
    yield "tokenizer.ggml.add_bos_token", struct.pack("<I?", _BOOL, True)
    yield "tokenizer.chat_template", _typed_string("{% for m in messages %}{{ m['content'] }}{% endfor %}")


def _tokens(vocabulary: int) -> Iterator[tuple[str, int]]:
    """One per byte, and words."""
    yield from (("<unk>", _UNKNOWN), ("<s>", _CONTROL), ("</s>", _CONTROL))
    for byte in range(256):
        yield f"<0x{byte:02X}>", _BYTE
    for number in range(vocabulary - 259):
        yield f"\u2581w{number}", _NORMAL


def _string(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack("<Q", len(encoded)) + encoded


def _typed_string(text: str) -> bytes:
    return struct.pack("<I", _STRING) + _string(text)


def _array(kind: int, items: list[bytes]) -> bytes:
    return struct.pack("<IIQ", _ARRAY, kind, len(items)) + b"".join(items)


def _bytes(rows: int | None, columns: int) -> int:
    return 4 * columns if rows is None else 2 * rows * columns


def _padded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def main(arguments: list[str]) -> None:
    given = dict(word.split("=", 1) for word in arguments[1:])
    kinds = {field.name: type(field.default) for field in fields(Shape)}
    write(Path(arguments[0]), Shape(**{name: kinds[name](value) for name, value in given.items()}))


if __name__ == "__main__":
    main(sys.argv[1:])
