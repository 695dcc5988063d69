"""What each engine does with each format on each card, version by version, as its sources say."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bubblescope.doctor.capability import Capability, parse_capability
from bubblescope.doctor.formats import FORMATS
from bubblescope.doctor.judgement import VERDICTS, judge, worst
from bubblescope.doctor.model_facts import ModelFacts
from bubblescope.doctor.rig import Part
from bubblescope.doctor.rules import NEWEST, RULES
from bubblescope.doctor.rules.rule import Rule
from bubblescope.doctor.versions import parse_version

#: Engine, version, format, forced kernels, experts; then capabilities, each with the first letter of its
#: verdict: native, emulated, fails, unknown.
CASES = """
vllm 0.33.0 nvfp4-modelopt    -           any      7.0 f 7.5 e 8.6 e 8.9 e 9.0 e
vllm 0.33.0 nvfp4-modelopt    -           any      10.0 n 10.3 n 12.0 n 12.1 n 13.0 u
vllm 0.33.0 nvfp4-compressed  -           any      7.0 f 8.0 e 8.9 e 10.0 n 12.0 n
vllm 0.33.0 nvfp4-modelopt    native      any      8.9 f 9.0 f 12.0 n
vllm 0.33.0 nvfp4-modelopt    weight-only any      8.9 e 10.0 e 12.0 e
vllm 0.33.0 nvfp4-weights     -           any      7.0 u 8.9 e 12.0 e
vllm 0.25.0 nvfp4-weights     -           any      12.0 u
vllm 0.16.0 nvfp4-modelopt    -           any      7.0 f 7.5 e 8.9 e 12.0 n
vllm 0.15.0 nvfp4-modelopt    -           any      7.0 f 8.9 u 9.0 u 10.0 n 12.0 n
vllm 0.15.0 nvfp4-modelopt    native      experts  10.0 n 12.0 f
vllm 0.15.0 nvfp4-compressed  -           any      7.0 f 8.0 e 8.9 e 12.0 n
vllm 0.11.2 nvfp4-modelopt    -           experts  8.9 u 10.0 n 12.0 f
vllm 0.11.2 nvfp4-modelopt    -           dense    8.9 u 10.0 n 12.0 n
vllm 0.10.0 nvfp4-modelopt    -           any      7.0 f 8.0 e 8.9 e 10.0 n 12.0 f
vllm 0.11.2 nvfp4-modelopt    -           any      11.0 u
vllm 0.12.0 nvfp4-modelopt    -           any      11.0 n
vllm 0.8.5  nvfp4-modelopt    -           any      8.9 u 10.0 u
vllm 0.33.0 mxfp4             -           experts  7.5 f 8.0 e 8.9 e 9.0 e 10.0 n
vllm 0.33.0 mxfp4             -           experts  12.0 n 12.1 n
vllm 0.33.0 mxfp4             weight-only experts  9.0 e 10.0 e 12.0 e
vllm 0.22.1 mxfp4             -           experts  8.9 e 10.0 n 12.0 u
vllm 0.20.2 mxfp4             -           experts  8.9 e 10.0 n 12.0 e
vllm 0.10.0 mxfp4             -           experts  9.0 u
vllm 0.33.0 fp8               -           any      7.0 f 7.5 e 8.6 e 8.9 n 9.0 n 12.0 n
vllm 0.13.0 fp8               -           any      7.5 f 8.0 e 8.6 e 8.9 n
vllm 0.33.0 fp8-compressed    -           any      7.0 f 7.5 e 8.6 e 8.9 n
vllm 0.15.0 fp8-compressed    -           any      7.5 f 8.6 e 8.9 n
vllm 0.33.0 fp8-modelopt      -           any      7.5 f 8.0 e 8.6 e 8.9 n
vllm 0.27.0 fp8-modelopt      -           any      8.6 u 8.9 n
vllm 0.26.0 fp8-modelopt      -           any      8.0 f 8.6 f 8.9 n
vllm 0.33.0 int4-awq          -           any      7.0 f 7.5 n 8.6 n 12.0 n
vllm 0.16.0 int4-awq          -           any      7.0 f 7.5 n
vllm 0.33.0 int4-gptq         -           any      7.0 f 7.5 n 8.9 n
vllm 0.16.0 int4-gptq         -           any      7.0 u 7.5 n
vllm 0.11.2 int4-compressed   -           any      7.5 f 8.0 n
vllm 0.12.0 int4-compressed   -           any      7.5 n
vllm 0.33.0 bf16              -           any      7.0 f 7.5 n 8.0 n 12.0 n
vllm 0.33.0 fp16              -           any      7.0 f 7.5 n 12.0 n

sglang 0.5.12 nvfp4-modelopt   -           any     7.0 f 8.0 f 8.6 f 8.9 f 9.0 f 10.0 n 12.0 n
sglang 0.5.13 nvfp4-modelopt   -           any     7.0 f 7.5 f 8.0 e 8.9 e 9.0 e 12.0 n
sglang 0.5.13 nvfp4-modelopt   native      any     8.9 f 9.0 f 12.0 n
sglang 0.5.13 nvfp4-modelopt   weight-only any     8.9 e 12.0 e
sglang 0.5.23 nvfp4-modelopt   -           any     8.9 e 10.3 n 12.1 n 13.0 u
sglang 0.5.4  nvfp4-modelopt   -           experts 8.9 f 10.0 n 12.0 f
sglang 0.5.4  nvfp4-modelopt   -           dense   8.9 f 10.0 n 12.0 u
sglang 0.5.8  nvfp4-modelopt   -           experts 10.0 n 11.0 f 12.0 n
sglang 0.5.9  nvfp4-modelopt   -           experts 11.0 n
sglang 0.4.10 nvfp4-modelopt   -           any     10.0 u
sglang 0.5.6  nvfp4-compressed -           any     8.9 f 10.0 f 12.0 f
sglang 0.5.21 nvfp4-compressed -           any     8.9 f 9.0 f 10.0 n 12.0 n
sglang 0.5.22 nvfp4-compressed -           any     7.5 f 8.0 e 8.9 e 12.0 n
sglang 0.5.12 mxfp4            -           experts 7.0 f 7.5 f 8.0 e 9.0 e 10.0 n 12.0 e
sglang 0.5.9  mxfp4            -           experts 9.0 e 10.0 n 12.0 u
sglang 0.5.16 mxfp4            -           experts 12.0 u
sglang 0.5.23 mxfp4            -           experts 8.6 e 10.0 n 12.0 n
sglang 0.5.23 mxfp4            native      experts 8.6 f 9.0 e 12.0 n
sglang 0.5.23 mxfp4            weight-only experts 8.6 f 9.0 e
sglang 0.5.23 fp8              -           dense   7.5 f 8.0 e 8.6 e 8.9 n 12.0 n
sglang 0.5.23 fp8              -           experts 8.6 u 8.9 n
sglang 0.5.23 fp8-compressed   -           dense   7.5 f 8.6 e 9.0 n
sglang 0.5.23 fp8-modelopt     -           any     8.6 f 8.9 n 12.0 n
sglang 0.5.23 int4-awq         -           any     7.0 f 7.5 n 8.9 n
sglang 0.5.23 int4-gptq        -           any     7.0 f 7.5 n 8.9 n
sglang 0.5.23 int4-compressed  -           any     7.5 f 8.0 n
sglang 0.5.23 bf16             -           any     7.0 f 7.5 n 8.0 n 12.0 n
sglang 0.5.23 fp16             -           any     7.0 f 7.5 n 12.0 n
sglang 0.5.23 nvfp4-weights    -           any     7.0 f 8.9 u 12.0 u

llama.cpp b11434 mxfp4          -          any     5.2 e 7.0 e 7.5 e 8.6 e 9.0 e
llama.cpp b11434 mxfp4          -          any     10.0 e 12.0 n 12.1 n
llama.cpp b11434 gguf-mxfp4     -          any     8.9 e 10.0 e 12.0 n
llama.cpp b6000  gguf-mxfp4     -          any     8.9 e 12.0 u
llama.cpp b11434 nvfp4-modelopt -          any     8.9 e 12.0 n
llama.cpp b11434 gguf           -          any     7.0 n 8.9 n 12.0 n
llama.cpp b11434 gguf-bf16      -          any     7.0 e 8.0 n 12.0 n
llama.cpp b11434 fp16           -          any     7.0 n 8.9 n
llama.cpp b11434 fp8            -          any     8.9 u
"""


Case = tuple[str, str, str, str | None, bool, Capability]


def cases(lines: str) -> Iterator[tuple[Case, str]]:
    """Each case and its verdict; "any" stands for models with and without experts."""
    for line in filter(None, lines.split("\n")):
        engine, version, weights, kernels, experts, *pairs = line.split()
        forced = None if kernels == "-" else kernels
        for capability, letter in zip(pairs[::2], pairs[1::2], strict=True):
            (verdict,) = (each for each in VERDICTS if each.startswith(letter))
            for with_experts in {"any": (False, True), "experts": (True,), "dense": (False,)}[experts]:
                yield (engine, version, weights, forced, with_experts, parse_capability(capability)), verdict


def decided_by(
    engine: str, version: str, weights: str, kernels: str | None, experts: bool, capability: Capability
) -> Rule | None:
    number = parse_version(version)
    assert number is not None
    holding = (
        rule
        for rule in RULES
        if rule.holds(engine, number, weights, capability, kernels, experts)  # type: ignore[arg-type]
    )
    return next(holding, None)


def of(capability: Capability | None) -> Part:
    return Part("a card", 1, capability, None, None)


@pytest.mark.parametrize("line", list(filter(None, CASES.split("\n"))))
def test_a_card_gets_the_verdict_that_the_sources_give(line: str) -> None:
    for (engine, version, weights, kernels, experts, capability), verdict in cases(line):
        model = ModelFacts("m", format=weights, experts=experts)
        (judged,) = judge(engine, version, model, [of(capability)], kernels)  # type: ignore[arg-type]
        assert judged.verdict == verdict, capability
        assert judged.reason


@pytest.mark.parametrize(("engine", "version"), [("vllm", "0.8.5"), ("sglang", "0.4.10")])
def test_of_versions_before_those_that_were_read_nothing_is_said(engine: str, version: str) -> None:
    for weights in FORMATS:
        for capability in ((7, 0), (7, 5), (8, 6), (8, 9), (10, 0), (12, 0)):
            for kernels in (None, "native", "weight-only"):
                model = ModelFacts("m", format=weights, experts=True)
                (judged,) = judge(engine, version, model, [of(capability)], kernels)  # type: ignore[arg-type]
                assert judged.verdict == "unknown"
                assert "no source was read" in judged.reason


@pytest.mark.parametrize(
    ("engine", "version", "weights", "capability", "said"),
    [
        ("vllm", "0.13.0", "nvfp4-modelopt", (8, 9), "emulates where FlashInfer cannot compile"),
        (
            "sglang",
            "0.5.9",
            "mxfp4",
            (12, 0),
            "chooses a kernel that its later sources call made for 10.x only",
        ),
    ],
)
def test_what_the_sources_leave_open_is_unknown_with_what_they_say(
    engine: str, version: str, weights: str, capability: Capability, said: str
) -> None:
    (judged,) = judge(engine, version, ModelFacts("m", format=weights), [of(capability)], None)
    assert judged.verdict == "unknown"
    assert said in judged.reason
    assert judged.way_out


def test_every_rule_decides_a_case_above() -> None:
    deciding = {decided_by(*case) for case, _ in cases(CASES)}
    assert [rule for rule in RULES if rule not in deciding] == []


def test_every_rule_names_its_source_and_every_failure_a_way_out() -> None:
    assert [rule for rule in RULES if not rule.source] == []
    assert [rule for rule in RULES if rule.verdict == "fails" and not rule.way_out] == []
    assert {weights for rule in RULES for weights in rule.formats} <= set(FORMATS)


def test_what_a_refusal_says_names_the_version_and_both_capabilities() -> None:
    (judged,) = judge("sglang", "0.5.12", ModelFacts("m", format="nvfp4-modelopt"), [of((8, 9))], None)
    assert judged.reason == (
        "SGLang 0.5.12 takes ModelOpt NVFP4 from compute capability 10.0 on only; this card has 8.9"
    )
    assert "0.5.13" in judged.way_out
    assert "get_min_capability" in judged.source


def test_what_cannot_be_known_is_unknown_with_what_is_missing() -> None:
    known = ModelFacts("m", format="bf16")
    for model, version, part, said in (
        (known, "0.33.0", of(None), "not a card that is known here"),
        (ModelFacts("org/m"), "0.33.0", of((9, 0)), "the weight format of org/m is not known"),
        (known, "main", of((9, 0)), "'main' is no version of vLLM"),
    ):
        (judged,) = judge("vllm", version, model, [part], None)
        assert judged.verdict == "unknown"
        assert said in judged.reason
        assert judged.way_out


def test_a_rig_is_as_good_as_its_worst_card() -> None:
    assert worst(["native", "emulated"]) == "emulated"
    assert worst(["native", "unknown", "emulated"]) == "unknown"
    assert worst(["unknown", "fails", "native"]) == "fails"
    assert worst([]) == "unknown"


@pytest.mark.parametrize("version", ["0.5.12.post1", "v0.5.12", "0.5.12+cu130", "0.5.12rc1"])
def test_builds_of_a_release_count_as_that_release(version: str) -> None:
    assert parse_version(version) == (0, 5, 12)


def test_versions_compare_by_number() -> None:
    assert parse_version("0.5.9") < parse_version("0.5.12")  # type: ignore[operator]
    assert parse_version("b11434") == (11434,)
    assert parse_version("main") is None
    assert all(parse_version(newest) for newest in NEWEST.values())
