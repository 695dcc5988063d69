"""What the files of a model tell, and what is said of broken ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from bubblescope.doctor.checkpoint import read_model
from bubblescope.errors import UsageError
from tests.doctor.models import LLAMA, write_config, write_gguf, write_safetensors


def test_a_folder_of_the_hub(tmp_path: Path) -> None:
    # GIVEN two shards: 10 bytes for each of 4 layers, an embedding of 100, norm and output of 50 together
    folder = write_config(tmp_path / "m")
    write_safetensors(
        folder / "a.safetensors",
        {"model.embed_tokens.weight": 100, "model.layers.0.mlp.w": 10, "model.layers.1.mlp.w": 10},
    )
    write_safetensors(
        folder / "b.safetensors",
        {
            "model.layers.2.a": 4,
            "model.layers.2.b": 6,
            "model.layers.3.mlp.w": 10,
            "lm_head.weight": 48,
            "norm": 2,
        },
    )
    # WHEN it is read / THEN the parts of each stage can be added up from it
    facts = read_model(str(folder), {})
    assert (facts.architecture, facts.format, facts.layers) == ("LlamaForCausalLM", "bf16", 4)
    assert (facts.experts, facts.context) == (False, 1000)
    assert facts.kv_values == (2 * 2 * 16,) * 4
    assert facts.weights is not None
    assert (facts.weights.layers, facts.weights.before, facts.weights.after) == ((10, 10, 10, 10), 100, 50)
    assert facts.weights.total == 190


def test_tied_embeddings_are_held_by_the_last_stage_too(tmp_path: Path) -> None:
    folder = write_config(tmp_path / "m", tie_word_embeddings=True)
    write_safetensors(folder / "a.safetensors", {"model.embed_tokens.weight": 100, "model.norm.weight": 2})
    weights = read_model(str(folder), {}).weights
    assert weights is not None
    assert (weights.before, weights.after) == (100, 102)


def test_a_config_of_several_parts_is_read_for_its_text(tmp_path: Path) -> None:
    text = {
        **LLAMA,
        "num_experts": 128,
        "head_dim": 64,
        "layer_types": ["linear_attention"] * 3 + ["full_attention"],
    }
    folder = write_config(tmp_path / "m", {"architectures": ["VisionModel"], "text_config": text})
    facts = read_model(str(folder), {})
    assert (facts.layers, facts.experts, facts.format) == (4, True, "bf16")
    # Only the last layer keeps K and V of 2 heads of 64.
    assert facts.kv_values == (0, 0, 0, 2 * 2 * 64)


def test_latent_attention_keeps_one_vector(tmp_path: Path) -> None:
    folder = write_config(tmp_path / "m", kv_lora_rank=512, qk_rope_head_dim=64, n_routed_experts=256)
    facts = read_model(str(folder), {})
    assert facts.kv_values == (576,) * 4
    assert facts.experts


def test_a_gguf_file(tmp_path: Path) -> None:
    values = {
        "general.architecture": "llama",
        "llama.block_count": 2,
        "llama.context_length": 4096,
        "llama.attention.head_count": 8,
        "llama.attention.head_count_kv": 2,
        "llama.embedding_length": 128,
        "tokenizer.ggml.tokens": ["a", "b"],
    }
    file = tmp_path / "m.gguf"
    write_gguf(
        file,
        values,
        [
            ("token_embd.weight", 30, 64),
            ("blk.0.w", 39, 320),
            ("blk.1.w", 39, 320),
            ("output.weight", 30, 96),
        ],
    )
    facts = read_model(str(file), {})
    # MXFP4 (39) has most of the bytes.
    assert (facts.format, facts.layers, facts.context, facts.experts) == ("gguf-mxfp4", 2, 4096, False)
    assert facts.kv_values == (2 * (16 + 16),) * 2
    assert facts.weights is not None
    assert (facts.weights.layers, facts.weights.before, facts.weights.after) == ((320, 320), 64, 96)


def test_gguf_in_parts_and_heads_by_layer(tmp_path: Path) -> None:
    values = {
        "general.architecture": "x",
        "x.block_count": 2,
        "x.expert_count": 64,
        "x.attention.head_count_kv": [2, 0],
        "x.attention.key_length": 32,
        "x.attention.value_length": 32,
    }
    first = tmp_path / "m-00001-of-00002.gguf"
    write_gguf(first, values, [("blk.0.w", 12, 64)])
    with pytest.raises(UsageError, match="this part of the model is missing"):
        read_model(str(first), {})
    write_gguf(tmp_path / "m-00002-of-00002.gguf", {}, [("blk.1.w", 12, 32)])
    facts = read_model(str(first), {})
    assert (facts.format, facts.experts, facts.kv_values) == ("gguf", True, (128, 0))
    assert facts.weights is not None
    assert facts.weights.layers == (64, 32)


def test_a_gguf_file_without_tensors_tells_nothing_of_weights(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf", {"general.architecture": "llama", "llama.block_count": 2}, [])
    facts = read_model(str(tmp_path / "m.gguf"), {})
    assert (facts.layers, facts.format) == (2, None)
    assert facts.weights is not None
    assert facts.weights.total == 0


def test_a_hub_name_is_looked_for_in_the_cache(tmp_path: Path) -> None:
    write_config(tmp_path / "hub/models--org--m/snapshots/abc")
    assert read_model("org/m", {"HF_HOME": str(tmp_path)}).layers == 4
    # One that is not there can be downloaded: nothing is known of it, and nothing is wrong with it.
    absent = read_model("org/other", {"HF_HOME": str(tmp_path)})
    assert (absent.name, absent.format, absent.layers) == ("org/other", None, None)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{", "not valid JSON"),
        (b"[1]", "no JSON object"),
        (b"[" * 100_000, "not valid JSON"),
        (b"\xff\xfe", "not valid JSON"),
    ],
)
def test_a_broken_config_is_one_line(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(UsageError, match=said):
        read_model(str(tmp_path), {})


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff" * 8, b"\x02\0\0\0\0\0\0\0[]", b"\x02\0\0\0\0\0\0\0{", b"\x09\0\0\0\0\0\0\0" + b'{"a": {}}'],
)
def test_a_broken_shard_is_one_line(tmp_path: Path, content: bytes) -> None:
    write_config(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(UsageError, match="is the model's download complete"):
        read_model(str(tmp_path), {})


@pytest.mark.parametrize("content", [b"", b"GGUF", b"GGML" + bytes(100), b"GGUF\x03\0\0\0" + b"\xff" * 64])
def test_a_broken_gguf_is_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m.gguf").write_bytes(content)
    with pytest.raises(UsageError, match="not a GGUF file"):
        read_model(str(tmp_path / "m.gguf"), {})


def test_a_cut_off_gguf_is_one_line_wherever_it_is_cut(tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    write_gguf(file, {"general.architecture": "llama", "a": ["x", "y"]}, [("blk.0.w", 1, 0)])
    whole = file.read_bytes()
    header = len(whole.rstrip(b"\0"))
    for cut in range(header):
        file.write_bytes(whole[:cut])
        with pytest.raises(UsageError, match="not a GGUF file"):
            read_model(str(file), {})


def test_what_is_no_model_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    for name, said in (
        (str(tmp_path / "nothing"), "no such model"),
        (str(tmp_path), "the folder has no config.json"),
        (str(tmp_path / "notes.txt"), "neither a folder with config.json nor a GGUF file"),
    ):
        with pytest.raises(UsageError, match=said):
            read_model(name, {})


def test_numbers_that_no_model_has_are_not_believed(tmp_path: Path) -> None:
    folder = write_config(
        tmp_path, num_hidden_layers=10**9, num_attention_heads=-8, max_position_embeddings="9"
    )
    facts = read_model(str(folder), {})
    assert (facts.kv_values, facts.context, facts.weights) == (None, None, None)
