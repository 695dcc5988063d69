"""What is wrong with a command: layers, memory, pipelining, and what spoils a measurement."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bubblescope.doctor.examination import examine
from bubblescope.doctor.invocation import parse_command
from bubblescope.doctor.launch import mixed_rig
from bubblescope.doctor.memory import even_partition, stage_needs
from bubblescope.doctor.model_facts import ModelFacts, Weights
from bubblescope.doctor.remark import Remark
from bubblescope.doctor.rig import GIB, parse_devices

#: 36 layers of 1 GiB, an embedding of 2 and an output of 3; 1024 numbers of KV for a token and layer,
#: which is 1 GiB for 512 Ki tokens in 16 bits.
MODEL = ModelFacts(
    "m",
    format="bf16",
    layers=36,
    kv_values=(1024,) * 36,
    context=1 << 19,
    weights=Weights((GIB,) * 36, 2 * GIB, 3 * GIB),
)
QUIET = "--no-enable-prefix-caching --disable-radix-cache --no-cache-prompt"


def said(
    line: str, devices: str, version: str = "0.33.0", model: ModelFacts = MODEL, **environment: str
) -> list[Remark]:
    command = parse_command([*line.split(), *QUIET.split()], environment)
    if command.engine == "llama.cpp":
        model = replace(model, format="gguf-bf16")
    return list(examine(command.engine, version, model, parse_devices(devices), command).remarks)


def failures(*args: str, **options: object) -> list[str]:
    return [remark.text for remark in said(*args, **options) if remark.verdict == "fails"]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("partition", "text"),
    [
        ("27,10", "VLLM_PP_LAYER_PARTITION=27,10 sums to 37 layers, and the model has 36"),
        ("12,12,12", "VLLM_PP_LAYER_PARTITION=12,12,12 names 3 stages, and the command starts 2"),
        ("27;9", "VLLM_PP_LAYER_PARTITION='27;9' is not a list of numbers"),
        ("36,0", "VLLM_PP_LAYER_PARTITION=36,0 leaves a stage without layers"),
        ("37,-1", "VLLM_PP_LAYER_PARTITION=37,-1 leaves a stage without layers"),
    ],
)
def test_a_wrong_partition_is_one_line(partition: str, text: str) -> None:
    assert failures("vllm serve m -pp 2", "H200 x2", VLLM_PP_LAYER_PARTITION=partition) == [text]
    sglang = failures("sglang serve --pp 2", "H200 x2", "0.5.23", SGLANG_PP_LAYER_PARTITION=partition)
    assert sglang == [text.replace("VLLM", "SGLANG")]


def test_a_right_partition_is_no_remark() -> None:
    assert said("vllm serve m -pp 2", "H200 x2", VLLM_PP_LAYER_PARTITION="27,9") == []
    # Each engine reads its own variable.
    assert said("vllm serve m -pp 2", "H200 x2", SGLANG_PP_LAYER_PARTITION="1,2,3") == []


def test_more_ranks_than_gpus() -> None:
    assert failures("vllm serve m -pp 2 -tp 2", "H200 x3") == [
        "2 stages of 2 ranks need 4 GPUs, and here are 3"
    ]


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("vllm serve m -pp 2 --distributed-executor-backend ray", "0.33.0"),
        ("sglang serve --model-path m --pp 2 --nnodes 2 --node-rank 0", "0.5.23"),
    ],
)
def test_of_several_hosts_nothing_is_said_about_places(line: str, version: str) -> None:
    assert said(line, "H200", version) == []


@pytest.mark.parametrize(
    ("line", "version", "text", "way_out"),
    [
        (
            "vllm serve m -pp 2",
            "0.33.0",
            "2 stages of 1 rank use 2 of 6 GPUs: RTX 5090 32GB ×1, RTX 4090 48GB ×3",
            "--pipeline-parallel-size 6,",
        ),
        (
            "vllm serve m -pp 2 -tp 2",
            "0.33.0",
            "2 stages of 2 ranks use 4 of 6 GPUs: RTX 4090 48GB ×2",
            "--pipeline-parallel-size 3,",
        ),
        (
            "vllm serve m -pp 2 -dp 2",
            "0.33.0",
            "2 stages of 1 rank, 2 times, use 4 of 6 GPUs: RTX 4090 48GB ×2",
            "--pipeline-parallel-size 3,",
        ),
        (
            "sglang serve --model-path m --pp 5",
            "0.5.23",
            "5 stages of 1 rank use 5 of 6 GPUs: RTX 4090 48GB ×1",
            "--pp-size 6,",
        ),
    ],
)
def test_cards_left_unused_are_named(line: str, version: str, text: str, way_out: str) -> None:
    rig = "RTX PRO 6000, RTX 5090 x2, RTX 4090 48GB x3"
    small = replace(MODEL, weights=None)
    (remark,) = said(line, rig, version, small)
    assert remark.verdict == "warns"
    assert remark.text == f"{text} hold no layers and no KV cache, and do not work"
    assert remark.way_out.startswith(way_out)


def test_cards_that_the_command_does_not_use_do_not_count() -> None:
    # GIVEN Blackwell cards first, and Ada cards that SGLang 0.5.12 would refuse
    nvfp4 = replace(MODEL, format="nvfp4-modelopt", weights=None)
    rig = parse_devices("RTX PRO 6000, RTX 5090 x2, RTX 4090 48GB x3")
    used = [
        examine("sglang", "0.5.12", nvfp4, rig, parse_command(["sglang", "serve", "--pp", stages], {}))
        for stages in ("3", "4")
    ]
    assert [found.verdict for found in used] == ["native", "fails"]
    assert [part.part.count for part in used[1].devices] == [1, 2, 1]


def test_with_every_card_in_use_nothing_is_said() -> None:
    assert said("vllm serve m -pp 3 -tp 2", "H200 x6") == []
    # The attention of SGLang is replicated within the ranks of a stage.
    line = "sglang serve --model-path m --pp 2 --tp 2 --dp 2 --enable-dp-attention"
    assert said(line, "H200 x4", "0.5.23") == []


@pytest.mark.parametrize(
    ("options", "idle"),
    [
        ("-ts 3,1", "1 GPU of 3 unused: RTX 4090 24GB ×1"),
        ("-ts 3/0/1", "1 GPU of 3 unused: RTX 5090 32GB ×1"),
        ("-ts 1,0.0,0", "2 GPUs of 3 unused: RTX 5090 32GB ×1, RTX 4090 24GB ×1"),
        ("-dev CUDA0,CUDA1", "1 GPU of 3 unused: RTX 4090 24GB ×1"),
        ("-ts 1,1,0.5", None),
        ("-ngl 99", None),
    ],
)
def test_cards_without_a_share_of_llama_cpp(options: str, idle: str | None) -> None:
    remarks = said(f"llama-server -m m {options}", "RTX 5090 x2, RTX 4090", "b11434")
    assert [remark.text for remark in remarks if "unused" in remark.text] == (
        [] if idle is None else [f"{idle} hold no layers and do not work"]
    )


def test_even_splits_put_what_is_left_over_where_the_engine_does() -> None:
    # vLLM: 38 = 9 + 10 + 10 + 9, the last stage last; SGLang: the last stages first.
    assert even_partition("vllm", 38, 4) == (9, 10, 10, 9)
    assert even_partition("vllm", 39, 4) == (10, 10, 10, 9)
    assert even_partition("sglang", 38, 4) == (9, 9, 10, 10)
    assert even_partition("vllm", 36, 2) == (18, 18)


def test_what_a_stage_needs() -> None:
    assert MODEL.weights is not None
    needs = stage_needs(MODEL.weights, MODEL.kv_values, (27, 9), 1, 1 << 19, "auto")
    assert [(need.weights // GIB, need.kv // GIB) for need in needs] == [(27 + 2, 27), (9 + 3, 9)]
    # Two ranks share a stage; FP8 halves the KV cache; NVFP4 takes 9/16 of a byte.
    needs = stage_needs(MODEL.weights, MODEL.kv_values, (36,), 2, 1 << 19, "fp8_e4m3")
    assert [(need.weights // GIB, need.kv // GIB) for need in needs] == [(41 // 2, 9)]
    (need,) = stage_needs(MODEL.weights, MODEL.kv_values, (36,), 1, 1 << 19, "nvfp4")
    assert need.kv == 36 * GIB * 9 // 32


def test_weights_that_do_not_fit_are_one_line_with_the_arithmetic() -> None:
    # Stage 0: 18 layers and the embedding, 20 GiB, in 0.92 of 16 GiB.
    assert failures("vllm serve m -pp 2", "RTX 5080, H200") == [
        "stage 0 (RTX 5080 16GB): 20.0 GiB of weights do not fit in 14.7 GiB (0.92 of 16.0 GiB)"
    ]
    # 3 layers and the embedding fit, and the rest fits the other card.
    assert failures("vllm serve m -pp 2", "RTX 5080, H200", VLLM_PP_LAYER_PARTITION="3,33") == []


def test_vllm_must_hold_the_kv_cache_of_one_longest_request() -> None:
    # Stage 0 of 27,9: 29 GiB of weights and 27 of KV cache for 512 Ki tokens are more than 0.92 of 48.
    line = "vllm serve m -pp 2"
    (text,) = failures(line, "L40S x2", VLLM_PP_LAYER_PARTITION="27,9")
    assert text == (
        "stage 0 (L40S 48GB): 29.0 GiB of weights and 27.0 GiB of KV cache for 524288 tokens do not fit in "
        "44.2 GiB (0.92 of 48.0 GiB)"
    )
    assert failures(f"{line} --max-model-len 128k", "L40S x2", VLLM_PP_LAYER_PARTITION="27,9") == []
    assert failures(f"{line} --kv-cache-dtype fp8", "L40S x2", VLLM_PP_LAYER_PARTITION="27,9") == []
    # SGLang shortens what it admits instead.
    assert failures("sglang serve --pp 2", "L40S x2", "0.5.23", SGLANG_PP_LAYER_PARTITION="27,9") == []


def test_vllm_014_to_016_asks_each_stage_for_the_kv_cache_of_all_layers() -> None:
    # 18 layers: 21 GiB of weights with the output, and 18 GiB of KV cache of its own: 39 of 0.9 × 48 GiB.
    for version, count in (("0.13.0", 0), ("0.14.0", 2), ("0.16.0", 2), ("0.17.1", 0)):
        texts = failures("vllm serve m -pp 2", "L40S x2", version)
        assert len(texts) == count, version
        assert all("36.0 GiB of KV cache" in text for text in texts)


def test_a_fraction_of_the_memory_that_the_command_sets() -> None:
    assert failures("vllm serve m -pp 2 --gpu-memory-utilization 0.5", "L40S x2") == [
        "stage 0 (L40S 48GB): 20.0 GiB of weights and 18.0 GiB of KV cache for 524288 tokens do not fit in "
        "24.0 GiB (0.5 of 48.0 GiB)",
        "stage 1 (L40S 48GB): 21.0 GiB of weights and 18.0 GiB of KV cache for 524288 tokens do not fit in "
        "24.0 GiB (0.5 of 48.0 GiB)",
    ]


def test_without_weight_files_nothing_is_said_of_memory() -> None:
    bare = ModelFacts("m", format="bf16", layers=36, context=1 << 19)
    assert failures("vllm serve m -pp 2", "RTX 5080 x2", model=bare) == []


@pytest.mark.parametrize(
    ("version", "backend", "partition", "trapped"),
    [
        ("0.5.17", "triton", "27,9", True),  # begins at 27, holds 9
        ("0.5.17", "triton", "18,18", False),  # -18 is the first of 18
        ("0.5.17", "triton", "12,12,12", True),  # the third begins at 24 and holds 12
        ("0.5.17", "torch_native", "27,9", False),
        ("0.5.18", "triton", "27,9", False),
    ],
)
def test_the_triton_trap_of_sglang(version: str, backend: str, partition: str, trapped: bool) -> None:
    stages = partition.count(",") + 1
    line = f"sglang serve --pp {stages} --attention-backend {backend}"
    texts = failures(line, "H200 x3", version, SGLANG_PP_LAYER_PARTITION=partition)
    assert [("IndexError" in text) for text in texts] == [True] * trapped


@pytest.mark.parametrize(
    ("line", "devices", "why"),
    [
        ("-ngl 37", "RTX 5090 x2", None),
        ("-ngl 99 -sm layer", "RTX 5090 x2", None),
        ("-ngl 36", "RTX 5090 x2", "-ngl 36 leaves layers or the output on the CPU"),
        ("-sm row", "RTX 5090 x2", "--split-mode row is not layer"),
        ("-nkvo", "RTX 5090 x2", "--no-kv-offload keeps the KV cache on the CPU"),
        ("-ot token_embd.weight=CUDA0", "RTX 5090 x2", "a tensor override is set"),
        ("-ncmoe 4", "RTX 5090 x2", "a tensor override is set"),
        ("-ngl 99", "H200", "there is one GPU only"),
    ],
)
def test_the_conditions_under_which_llama_cpp_pipelines(line: str, devices: str, why: str | None) -> None:
    texts = [remark.text for remark in said(f"llama-server -m m {line}", devices, "b11434")]
    if why is None:
        assert texts == []
    else:
        assert len(texts) == 1
        assert texts[0].startswith(f"llama.cpp will not pipeline: {why}")


def test_small_microbatches_and_too_many_weights_of_llama_cpp() -> None:
    texts = [remark.text for remark in said("llama-server -m m -ub 64", "RTX 5080 x2", "b11434")]
    assert texts == [
        "--ubatch-size 64 drains the pipeline at each reused graph",
        "41.0 GiB of weights do not fit in 32.0 GiB of all cards",
    ]


@pytest.mark.parametrize(
    ("line", "version", "off"),
    [
        ("vllm serve m", "0.33.0", "--no-enable-prefix-caching"),
        ("sglang serve --model-path m", "0.5.23", "--disable-radix-cache"),
        ("llama-server -m m", "b11434", "--no-cache-prompt"),
    ],
)
def test_prefix_caching_spoils_a_measurement(line: str, version: str, off: str) -> None:
    command = parse_command(line.split(), {})
    remarks = examine(command.engine, version, MODEL, parse_devices("H200 x2"), command).remarks
    assert [remark.way_out for remark in remarks if "prefix caching" in remark.text] == [
        f"while you measure: {off}"
    ]


def test_llama_bench_has_no_prefix_cache() -> None:
    command = parse_command(["llama-bench", "-m", "m"], {})
    gguf = replace(MODEL, format="gguf-bf16")
    assert examine("llama.cpp", "b11434", gguf, parse_devices("H200 x2"), command).remarks == ()


def test_llama_cpp_wants_gguf() -> None:
    command = parse_command(["llama-bench", "-m", "m"], {})
    rig = parse_devices("H200 x2")
    # GIVEN a checkpoint of the hub: what the command names cannot be loaded
    (remark,) = examine("llama.cpp", "b11434", MODEL, rig, command).remarks
    assert (remark.verdict, remark.text) == ("fails", "llama.cpp loads GGUF files only, and m is none")
    # AND what is only judged would have to be converted
    (remark,) = examine("llama.cpp", "b11434", MODEL, rig).remarks
    assert remark.verdict == "warns"


def test_a_gguf_file_in_fp16_is_gguf() -> None:
    half = replace(MODEL, name="m.gguf", format="fp16")
    command = parse_command(["llama-bench", "-m", "m.gguf"], {})
    assert examine("llama.cpp", "b11434", half, parse_devices("H200 x2"), command).remarks == ()


def test_a_list_of_plugins_keeps_a_recorder_out() -> None:
    (remark,) = said("vllm serve m", "H200", VLLM_PLUGINS="lora")
    assert (remark.verdict, remark.text[:20]) == ("warns", "VLLM_PLUGINS='lora' ")


@pytest.mark.parametrize(
    ("line", "version", "refused"),
    [
        ("vllm serve m", "0.31.0", ["RTX 4090 24GB", "RTX 5090 32GB"]),
        ("vllm serve m", "0.32.0", []),
        ("sglang serve --model-path m", "0.5.23", ["RTX 4090 24GB"]),
    ],
)
def test_an_nvfp4_kv_cache_goes_by_the_family_of_the_card(
    line: str, version: str, refused: list[str]
) -> None:
    texts = failures(f"{line} --kv-cache-dtype nvfp4", "B200, RTX 5090, RTX 4090", version)
    assert sorted(text.split(":")[0] for text in texts) == refused


def test_engines_that_ask_one_card_for_all_are_warned_of_on_a_mixed_rig() -> None:
    rig = parse_devices("RTX 5090, RTX 4090")
    for engine in ("vllm", "sglang"):
        remark = mixed_rig(engine, rig, ["native", "emulated"])
        assert remark is not None
        assert "asks the first visible GPU only which kernels to use, here RTX 5090 32GB" in remark.text
    assert mixed_rig("vllm", rig, ["native", "native"]) is None
    assert mixed_rig("llama.cpp", rig, ["native", "emulated"]) is None


def test_what_fails_comes_before_what_warns() -> None:
    command = parse_command(["vllm", "serve", "m"], {"VLLM_PP_LAYER_PARTITION": "1,2"})
    examination = examine("vllm", "0.33.0", MODEL, parse_devices("H200"), command)
    assert [remark.verdict for remark in examination.remarks] == ["fails", "warns"]
    assert examination.verdict == "fails"
