from __future__ import annotations

import json
from dataclasses import replace

from bubblescope.analyzers.results import Recommendation
from bubblescope.report.advice import advice
from bubblescope.report.document import to_json
from tests.report.analyses import MS, analysis

STATES = [[("compute", 90), ("host", 10)], [("starved", 60), ("compute", 40)]]
ADVISED = Recommendation(
    partition=(18, 18),
    reason="18,18 would save 26.4 % of a prompt's prefill",
    makespan_ns=990 * MS,
    predicted_makespan_ns=728 * MS,
    predicted_range_ns=(712 * MS, 734 * MS),
    ttft_ns=1050 * MS,
    predicted_ttft_ns=788 * MS,
    error=0.009,
    words="VLLM_PP_LAYER_PARTITION=18,18",
    remarks=("1 of 2 prompts is left out",),
)


def test_says_what_to_type_and_what_it_is_worth() -> None:
    section = advice(analysis(STATES, recommendation=ADVISED))
    assert section is not None
    assert section.lines[0].text == ADVISED.reason
    assert section.lines[0].code == "VLLM_PP_LAYER_PARTITION=18,18"
    assert [line.text for line in section.lines[1:]] == [
        "Prefill of a prompt on the devices: 990 ms now, 728 ms predicted (712 ms to 734 ms); "
        "the simulator misses the recording by 0.9 %",
        "Time to first token: 1.05 s now, 788 ms predicted",
        "1 of 2 prompts is left out",
    ]


def test_a_split_that_keeps_a_prompt_on_the_devices_for_longer_is_not_said_to_shorten_that() -> None:
    # GIVEN prompts so close together that what is saved is saved before they begin
    waits = replace(ADVISED, makespan_ns=82 * MS, predicted_makespan_ns=87 * MS, predicted_range_ns=None)
    section = advice(analysis(STATES, recommendation=waits))
    assert section is not None
    assert section.lines[1].text == (
        "A prompt waits less before it begins, and is on the devices for 87.0 ms instead of 82.0 ms; "
        "the simulator misses the recording by 0.9 %"
    )


def test_for_an_unknown_engine_the_advice_is_one_sentence_with_nothing_to_type() -> None:
    plain = replace(ADVISED, words="split the layers 18,18 over the stages")
    section = advice(analysis(STATES, recommendation=plain))
    assert section is not None
    assert section.lines[0].code is None
    assert section.lines[0].text == (
        "18,18 would save 26.4 % of a prompt's prefill: split the layers 18,18 over the stages"
    )


def test_without_advice_it_says_why() -> None:
    section = advice(analysis(STATES, recommendation=Recommendation(None, "balanced within error")))
    assert section is not None
    assert [(line.text, line.code) for line in section.lines] == [("Balanced within error", None)]


def test_where_there_is_no_pipeline_nothing_is_to_be_split() -> None:
    assert advice(analysis([])) is None


def test_names_from_the_recording_stay_on_one_line() -> None:
    hostile = Recommendation(None, "x", remarks=("the same \x1b[31m\nGPU",))
    section = advice(analysis(STATES, recommendation=hostile))
    assert section is not None
    assert section.lines[1].text == "The same \\x1b[31m\\nGPU"


def test_json_has_every_promised_key() -> None:
    found = json.loads(to_json(analysis(STATES, recommendation=ADVISED)))["recommendation"]
    assert found == {
        "partition": [18, 18],
        "reason": ADVISED.reason,
        "makespan_ns": 990 * MS,
        "predicted_makespan_ns": 728 * MS,
        "predicted_range_ns": [712 * MS, 734 * MS],
        "ttft_ns": 1050 * MS,
        "predicted_ttft_ns": 788 * MS,
        "error": 0.009,
        "words": "VLLM_PP_LAYER_PARTITION=18,18",
        "remarks": ["1 of 2 prompts is left out"],
    }
