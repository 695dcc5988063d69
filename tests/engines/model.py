"""A small model without weights, as engines take it with dummy weights: a config and a tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

VOCABULARY = 512
LAYERS = 8


def qwen3(folder: Path, hidden_size: int, layers: int = LAYERS) -> Path:
    """Write a Qwen3 of the given size into `folder`."""
    folder.mkdir()
    config = {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": hidden_size,
        "intermediate_size": 3 * hidden_size, "num_hidden_layers": layers,
        "num_attention_heads": hidden_size // 64,
        "num_key_value_heads": hidden_size // 128, "head_dim": 64, "vocab_size": VOCABULARY,
        "max_position_embeddings": 16384, "rms_norm_eps": 1e-6, "hidden_act": "silu", "rope_theta": 10000.0,
        "tie_word_embeddings": False, "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2,
    }  # fmt: skip
    _write(folder / "config.json", config)
    _write(folder / "tokenizer.json", _tokenizer())
    special = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    _write(folder / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", **special})
    return folder


def _tokenizer() -> dict[str, Any]:
    """One token per byte, no merges."""
    names = ["<unk>", "<s>", "</s>", *_byte_symbols()]
    names += [f"<x{number}>" for number in range(len(names), VOCABULARY)]
    bytes_alone = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": bytes_alone, "post_processor": None, "decoder": bytes_alone,
        "model": {
            "type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
            "vocab": {name: number for number, name in enumerate(names)}, "merges": [],
        },
    }  # fmt: skip


def _byte_symbols() -> list[str]:
    """GPT-2's printable character for each byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return [chr(byte) for byte in printable] + [chr(256 + number) for number in range(len(others))]


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value))
