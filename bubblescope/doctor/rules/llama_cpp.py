"""llama.cpp. Read: the source of b11434 (ggml 0.26).

It runs GGUF. For a checkpoint in another form the rules speak of what its own converter makes of it.
Paths are below ggml/src/ggml-cuda/.
"""

from __future__ import annotations

from bubblescope.doctor.rules.rule import Rule

_L = "llama.cpp"
_FP4 = ("nvfp4-modelopt", "nvfp4-compressed", "nvfp4-weights", "mxfp4", "gguf-nvfp4", "gguf-mxfp4")
_ARCHES = "b11434 ggml-cuda/CMakeLists.txt CMAKE_CUDA_ARCHITECTURES"

LLAMA_CPP: tuple[Rule, ...] = (
    Rule(
        _L, _FP4, ((12, 0), (13, 0)), "native",
        "computes in FP4 on the card's FP4 units, where it was built for it (120a)",
        "b11434 mmq.cu, common.cuh blackwell_mma_available",
        since="b11434",
    ),
    Rule(
        _L, _FP4, ((10, 0), (12, 0)), "emulated",
        "uses the FP4 units of 12.x only; here it computes in 8-bit integers",
        "b11434 common.cuh GGML_CUDA_CC_BLACKWELL 1200; mmq.cu",
    ),
    Rule(
        _L, _FP4, ((7, 5), (10, 0)), "emulated",
        "keeps the weights in FP4 and computes in 8-bit integers, without FP4 units",
        "b11434 mmq.cu",
    ),
    Rule(
        _L, _FP4, ((5, 0), (7, 5)), "emulated",
        "keeps the weights in FP4 and computes in 8-bit integers; builds with CUDA 13 leave this card out",
        f"b11434 mmq.cu; {_ARCHES}",
        way_out="a build with CUDA 12 where it says there is no device code",
    ),
    Rule(
        _L, ("gguf",), ((7, 5), (13, 0)), "native",
        "computes in 8-bit integers, as on every card",
        "b11434 mmq.cu",
    ),
    Rule(
        _L, ("gguf", "fp16"), ((5, 0), (7, 5)), "native",
        "computes as on every card; builds with CUDA 13 leave this card out",
        f"b11434 mmq.cu; {_ARCHES}",
        way_out="a build with CUDA 12 where it says there is no device code",
    ),
    Rule(
        _L, ("bf16", "gguf-bf16"), ((8, 0), (13, 0)), "native",
        "computes in BF16 on the card's 16-bit units",
        "b11434 common.cuh bf16_mma_hardware_available",
    ),
    Rule(
        _L, ("bf16", "gguf-bf16"), ((5, 0), (8, 0)), "emulated",
        "has no BF16 units here and widens the weights",
        "b11434 common.cuh bf16_mma_hardware_available",
        way_out="an F16 or Q8_0 GGUF",
    ),
    Rule(
        _L, ("fp16",), ((7, 5), (13, 0)), "native",
        "computes in FP16 on the card's 16-bit units",
        "b11434 common.cuh fp16_mma_hardware_available",
    ),
)  # fmt: skip
