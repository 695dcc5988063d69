"""What is wrong with a command before it is started."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bubblescope.doctor.invocation import NAMES, Invocation
from bubblescope.doctor.model_facts import ModelFacts
from bubblescope.doctor.pipelining import pipelined
from bubblescope.doctor.placement import placed
from bubblescope.doctor.remark import Remark
from bubblescope.doctor.rig import Part
from bubblescope.doctor.versions import Version

_NO_PREFIX_CACHE = {
    "vllm": "no-enable-prefix-caching",
    "sglang": "disable-radix-cache",
    "llama.cpp": "no-cache-prompt",
}


def remarks(
    command: Invocation, version: Version | None, model: ModelFacts, rig: Sequence[Part]
) -> tuple[Remark, ...]:
    """Everything that is to be said about the command."""
    if command.engine == "llama.cpp":
        return (*pipelined(command, model, rig), *_measuring(command))
    return (*placed(command, version, model, rig), *_kv_cache(command, version, rig), *_measuring(command))


def _kv_cache(command: Invocation, version: Version | None, rig: Sequence[Part]) -> Iterator[Remark]:
    """An NVFP4 KV cache goes by the family of the card: 12.0 is not "10.0 and up"."""
    if not (command.given("kv") or "").startswith("nvfp4"):
        return
    if command.engine == "vllm":
        old = version is not None and version < (0, 32)
        majors: tuple[int, ...] = (10,) if old else (8, 9, 10, 12)
        source = "vllm 0.26.0 to 0.31.0 (10.x), 0.32.0 (8, 9, 10, 12) v1/attention/backends/flashinfer.py"
    else:
        majors = (10, 12)
        source = "sglang 0.5.23 arg_groups/kv_cache_hook.py"
    for part in rig:
        if part.capability is not None and part.capability[0] not in majors:
            text = f"{part.device}: an NVFP4 KV cache needs a card of {', '.join(f'{m}.x' for m in majors)}"
            yield Remark("fails", text, "--kv-cache-dtype fp8 or auto", source)


def _measuring(command: Invocation) -> Iterator[Remark]:
    """What would make a recording tell something else than the user thinks."""
    plugins = command.environment.get("VLLM_PLUGINS") if command.engine == "vllm" else None
    if plugins is not None:
        text = f"VLLM_PLUGINS={plugins[:60]!r} keeps all other plugins out, a recorder's too"
        yield Remark("warns", text, "unset it, or add the recorder's name", "vllm plugins/__init__.py")
    if command.engine == "llama.cpp" and "server" not in command.program:
        return
    if _NO_PREFIX_CACHE[command.engine] not in command.options:
        text = "prefix caching is on: a prompt that was sent before is answered without prefill"
        yield Remark("warns", text, f"while you measure: --{_NO_PREFIX_CACHE[command.engine]}", "")


def mixed_rig(engine: str, rig: Sequence[Part], verdicts: Sequence[str]) -> Remark | None:
    """vLLM and SGLang ask one card which kernels to take, and take them on all."""
    if engine == "llama.cpp" or len({"native", "emulated"} & set(verdicts)) < 2:
        return None
    if engine == "vllm":
        way_out = "an old card first in CUDA_VISIBLE_DEVICES, with CUDA_DEVICE_ORDER=PCI_BUS_ID: all emulate"
        source = "vllm 0.9.2 to 0.33.0 platforms/cuda.py get_device_capability(device_id=0); vllm#19741"
    else:
        way_out = "SGLANG_ONE_VISIBLE_DEVICE_PER_PROCESS=1 (0.5.5 and newer), or force marlin: all emulate"
        source = "sglang 0.5.1 to 0.5.23 utils/common.py get_device_capability(device_id=0)"
    text = (
        f"{NAMES[engine]} asks the first visible GPU only which kernels to use, here {rig[0].device}: "
        "cards of the other kind may be given kernels that they cannot run"
    )
    return Remark("warns", text, way_out, source)


def needs_gguf(engine: str, model: ModelFacts, command: Invocation | None) -> list[Remark]:
    """llama.cpp loads GGUF only; a checkpoint of the hub is judged as what becomes of it."""
    # FP16 in a GGUF file is judged as FP16 anywhere, so there the format does not tell.
    is_gguf = model.name.endswith(".gguf") or (model.format or "").startswith("gguf")
    if engine != "llama.cpp" or model.format is None or is_gguf:
        return []
    started = command is not None and command.model == model.name
    text = f"llama.cpp loads GGUF files only, and {model.name} is none"
    way_out = "convert it first: convert_hf_to_gguf.py"
    return [
        Remark("fails" if started else "warns", text, way_out, "llama.cpp b11434 src/llama-model-loader.cpp")
    ]
