"""A model's folder or file as the hub lays it out: config.json and safetensors, or GGUF."""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bubblescope.doctor.formats import weight_format
from bubblescope.doctor.gguf import gguf_facts
from bubblescope.doctor.model_facts import ModelFacts, Weights
from bubblescope.errors import NotATraceError, UsageError

LARGEST_CONFIG = 16 << 20
#: The format's own bound on the header of a safetensors file.
LARGEST_HEADER = 100_000_000
MOST_SHARDS = 4096

_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.([0-9]{1,5})\.")
_EMBEDDING = re.compile(r"(?:^|\.)(?:embed_tokens|tok_embeddings|word_embeddings|wte)\.")
_HUB = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+", re.ASCII)
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")


def read_model(name: str, environment: Mapping[str, str]) -> ModelFacts:
    """What the files of the model tell: a folder, a GGUF file, or a hub name that is in the cache.

    A hub name that is not in the cache gives facts without content. UsageError where there is no such
    model, or its config cannot be understood.
    """
    path = Path(name)
    if path.is_file() and path.suffix == ".gguf":
        return gguf_facts(path)
    if path.is_dir():
        return _folder(path, name)
    if path.exists():
        raise UsageError(f"{name}: not a model: neither a folder with config.json nor a GGUF file")
    if not _HUB.fullmatch(name):
        raise UsageError(f"{name}: no such model: there is no such folder, and it is no name of the hub")
    cached = _cached(name, environment)
    return ModelFacts(name) if cached is None else _folder(cached, name)


def _cached(name: str, environment: Mapping[str, str]) -> Path | None:
    """The newest snapshot of a hub name in the user's cache."""
    home = environment.get("HF_HOME") or os.path.join(
        environment.get("XDG_CACHE_HOME") or os.path.join(environment.get("HOME", "/"), ".cache"),
        "huggingface",
    )
    hub = Path(environment.get("HF_HUB_CACHE") or os.path.join(home, "hub"))
    snapshots = hub.joinpath("models--" + name.replace("/", "--")).glob("snapshots/*/config.json")
    return max((found.parent for found in snapshots), key=lambda folder: folder.stat().st_mtime, default=None)


def _folder(folder: Path, name: str) -> ModelFacts:
    ggufs = sorted(folder.glob("*.gguf"))
    if not (folder / "config.json").exists():
        if len(ggufs) == 1:
            return gguf_facts(ggufs[0])
        raise UsageError(f"{name}: not a model: the folder has no config.json")
    config = _json(folder / "config.json")
    modelopt = folder / "hf_quant_config.json"
    tool = _json(modelopt).get("quantization") if modelopt.exists() else None
    inner = config.get("text_config")
    text = inner if isinstance(inner, Mapping) else config
    layers = _count(text, "num_hidden_layers", "n_layer", "num_layers")
    architectures = config.get("architectures")
    return ModelFacts(
        name=name,
        architecture=str(architectures[0]) if isinstance(architectures, list) and architectures else None,
        format=weight_format(config, tool if isinstance(tool, Mapping) else None),
        experts=any(isinstance(text.get(key), int) and text[key] > 1 for key in _EXPERTS),
        layers=layers,
        kv_values=_kv_values(text, layers),
        context=_count(text, "max_position_embeddings", "n_positions"),
        weights=_weights(folder, layers, tied=bool(text.get("tie_word_embeddings"))),
    )


def _json(path: Path) -> Mapping[str, Any]:
    if path.stat().st_size > LARGEST_CONFIG:
        raise NotATraceError(f"{path}: too large for a config")
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        raise UsageError(f"{path}: not valid JSON; is the model's download complete?") from None
    if not isinstance(content, Mapping):
        raise UsageError(f"{path}: not a model's config: no JSON object")
    return content


def _count(config: Mapping[str, Any], *keys: str) -> int | None:
    found = (config.get(key) for key in keys)
    return next((value for value in found if isinstance(value, int) and 0 < value < 1 << 32), None)


def _kv_values(text: Mapping[str, Any], layers: int | None) -> tuple[int, ...] | None:
    """Numbers in the KV cache for one token, of each layer; None for kinds that are not known."""
    if layers is None or layers > 10_000:
        return None
    latent, rope = _count(text, "kv_lora_rank"), _count(text, "qk_rope_head_dim")
    heads = _count(text, "num_attention_heads")
    hidden = _count(text, "hidden_size")
    if latent and rope:
        each = latent + rope
    elif heads and hidden:
        each = (
            2 * (_count(text, "num_key_value_heads") or heads) * (_count(text, "head_dim") or hidden // heads)
        )
    else:
        return None
    kinds = text.get("layer_types")
    if kinds is None:
        interval = _count(text, "full_attention_interval")
        return tuple(each if interval is None or (n + 1) % interval == 0 else 0 for n in range(layers))
    if not isinstance(kinds, list) or len(kinds) != layers:
        return None
    # Layers with a window keep little, linear ones a state that does not grow: both count as nothing.
    return tuple(each if kind == "full_attention" else 0 for kind in kinds)


def _weights(folder: Path, layers: int | None, tied: bool) -> Weights | None:
    """Bytes by the headers of the safetensors files; None without them or without a layer count."""
    files = sorted(folder.glob("*.safetensors"))[:MOST_SHARDS]
    if layers is None or layers > 10_000 or not files:
        return None
    per_layer, before, after = [0] * layers, 0, 0
    for file in files:
        for name, size in _tensors(file):
            layer = _LAYER.search(name)
            if layer and int(layer[1]) < layers:
                per_layer[int(layer[1])] += size
            elif _EMBEDDING.search(name):
                before += size
            else:
                after += size
    return Weights(tuple(per_layer), before, after + (before if tied else 0))


def _tensors(path: Path) -> Iterator[tuple[str, int]]:
    """Name and bytes of every tensor of a safetensors file, from its header alone."""
    with path.open("rb") as file:
        prefix = file.read(8)
        size = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else LARGEST_HEADER + 1
        if size > LARGEST_HEADER:
            raise UsageError(f"{path}: not a safetensors file; is the model's download complete?")
        try:
            header = json.loads(file.read(size))
            offsets = [
                (name, tensor["data_offsets"]) for name, tensor in header.items() if name != "__metadata__"
            ]
            yield from ((name, int(end) - int(begin)) for name, (begin, end) in offsets)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise UsageError(
                f"{path}: its header cannot be read; is the model's download complete?"
            ) from None
