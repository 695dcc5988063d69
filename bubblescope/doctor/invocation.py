"""The command that starts an engine, taken apart."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bubblescope.doctor.rules.rule import Kernels
from bubblescope.errors import UsageError

ENGINES = ("vllm", "sglang", "llama.cpp")
#: As people write them.
NAMES = {"vllm": "vLLM", "sglang": "SGLang", "llama.cpp": "llama.cpp"}

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.ASCII | re.DOTALL)
_LLAMA_CPP = re.compile(r"(?:llama-(?:server|bench|cli|batched-bench|perplexity)|server)(?:\.exe)?")
_MODULES = {"vllm": "vllm", "sglang": "sglang"}
_NUMBER = re.compile(r"-[0-9.]+")

#: The names under which each engine takes what is asked about here.
_OPTIONS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "vllm": {
        "model": ("model",),
        "pipeline": ("pipeline-parallel-size", "pp"),
        "tensor": ("tensor-parallel-size", "tp"),
        "data": ("data-parallel-size", "dp"),
        "context": ("max-model-len",),
        "memory": ("gpu-memory-utilization",),
        "kv": ("kv-cache-dtype",),
        "kernels": ("moe-backend", "linear-backend"),
    },
    "sglang": {
        "model": ("model-path", "model"),
        "pipeline": ("pipeline-parallel-size", "pp-size", "pp"),
        "tensor": ("tensor-parallel-size", "tp-size", "tp"),
        "data": ("data-parallel-size", "dp-size", "dp"),
        "context": ("context-length",),
        "memory": ("mem-fraction-static",),
        "kv": ("kv-cache-dtype",),
        "kernels": ("fp4-gemm-backend", "fp4-gemm-runner-backend", "moe-runner-backend"),
        "attention": ("attention-backend", "prefill-attention-backend", "decode-attention-backend"),
    },
    "llama.cpp": {
        "model": ("m", "model"),
        "context": ("c", "ctx-size"),
        "gpu layers": ("ngl", "gpu-layers", "n-gpu-layers"),
        "split": ("sm", "split-mode"),
        "shares": ("ts", "tensor-split"),
        "devices": ("dev", "device"),
        "ubatch": ("ub", "ubatch-size"),
        "override": ("ot", "override-tensor", "cmoe", "cpu-moe", "ncmoe", "n-cpu-moe"),
        "kv on cpu": ("nkvo", "no-kv-offload"),
    },
}
_WEIGHT_ONLY = ("marlin", "humming", "emulation", "triton_kernel", "triton")


@dataclass(frozen=True)
class Invocation:
    """One start of an engine.

    engine: one of ENGINES. program: the first word of the engine's own, where its version is looked for.
    model: as the command names it, or None.
    options: without dashes, `_` as `-`; "" where none was given a value.
    environment: what the engine will see.
    """

    engine: str
    program: str
    model: str | None
    options: Mapping[str, str]
    environment: Mapping[str, str]

    def given(self, what: str) -> str | None:
        """The value of an option by what it means here, None where the command does not give it."""
        names = _OPTIONS[self.engine].get(what, ())
        return next((self.options[name] for name in names if name in self.options), None)

    def count(self, what: str) -> int:
        """How many stages or ranks; 1 where the command does not say."""
        text = self.given(what)
        if text is None:
            return 1
        if not text.isdecimal() or not 0 < int(text) <= 1024:
            raise UsageError(f"the command: {text!r} is not a number of {what} parallel ranks")
        return int(text)

    @property
    def is_of_several_hosts(self) -> bool:
        """Whether GPUs of other hosts take part, of which nothing is known here."""
        nodes = self.options.get("nnodes", "1")
        return nodes != "1" or self.options.get("distributed-executor-backend") == "ray"

    def kernels(self) -> Kernels | None:
        """The kind of kernels that the command forces, None where the engine may choose."""
        names = _OPTIONS[self.engine].get("kernels", ())
        forced = [self.options[name].lower() for name in names if name in self.options]
        forced += (
            [self.environment.get("VLLM_NVFP4_GEMM_BACKEND", "auto").lower()] if self.engine == "vllm" else []
        )
        chosen = [name for name in forced if name not in ("", "auto")]
        if not chosen:
            return None
        return "weight-only" if all(name in _WEIGHT_ONLY for name in chosen) else "native"


def parse_command(words: Sequence[str], environment: Mapping[str, str]) -> Invocation:
    """The engine's start in a command line, behind assignments and wrappers like `env` or `numactl`.

    UsageError where no engine is started in it.
    """
    assigned: dict[str, str] = {}
    for at, word in enumerate(words):
        engine = _engine(words, at)
        if engine is not None:
            rest = list(words[at + (2 if word == "-m" else 1) :])
            program = words[at - 1] if word == "-m" and at else word
            return _invocation(engine, program, rest, {**environment, **assigned})
        assignment = _ASSIGNMENT.fullmatch(word)
        if assignment:
            assigned[assignment[1]] = assignment[2]
    raise UsageError(
        f"no engine in the command {' '.join(words)[:80]!r}: it has to start vllm, sglang or llama-server"
    )


def _engine(words: Sequence[str], at: int) -> str | None:
    """The engine that the word at this place starts."""
    name = words[at].replace("\\", "/").rsplit("/", 1)[-1]
    if words[at] == "-m" and at + 1 < len(words) and at and "python" in words[at - 1]:
        return _MODULES.get(words[at + 1].split(".")[0])
    if name in ("vllm", "sglang"):
        return name
    return "llama.cpp" if _LLAMA_CPP.fullmatch(name) else None


def _invocation(engine: str, program: str, rest: list[str], environment: Mapping[str, str]) -> Invocation:
    positional, options = _options(rest)
    found = Invocation(engine, program, None, options, environment)
    model = found.given("model")
    if model is None:
        plain = [word for word in positional if word not in ("serve", "bench", "throughput", "latency")]
        model = plain[0] if engine == "vllm" and plain else None
    return Invocation(engine, program, model or None, options, environment)


def _options(words: list[str]) -> tuple[list[str], dict[str, str]]:
    """Words before and between the options, and the options; the last of several wins."""
    positional: list[str] = []
    options: dict[str, str] = {}
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if not _is_option(word):
            positional.append(word)
            continue
        name, given, value = word.lstrip("-").partition("=")
        if not given and at < len(words) and not _is_option(words[at]):
            value = words[at]
            at += 1
        options[name.replace("_", "-")] = value
    return positional, options


def _is_option(word: str) -> bool:
    return word.startswith("-") and word != "-" and not _NUMBER.fullmatch(word)
