"""The JSON form: its key set is a promise to programs."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np

from bubblescope.analyzers.results import Analysis, DeviceStates, Finding, RequestBreakdown, Straggler
from bubblescope.report.document import to_json
from bubblescope.report.verdict import verdict
from bubblescope.trace.model import Device, Lost, Run
from tests.report.analyses import BEGIN_NS, MS, analysis, without_devices_work

UNEVEN = analysis(
    [[("compute", 90), ("drain", 10)], [("fill", 10), ("starved", 60), ("compute", 30)]],
    blame=[(1, 0, "compute", 55), (1, -1, "unknown", 5)],
    layers=[27, 9],
    concurrency=[(1, 80), (2, 20)],
    ideal_bubble_ratio=0.2,
)


def test_has_every_promised_key() -> None:
    found = json.loads(to_json(UNEVEN))
    promised = (
        "schema pipeline window engine layers_from devices stages bubble_ratio ideal_bubble_ratio "
        "blame requests stragglers findings recommendation lost verdict"
    )
    assert set(promised.split()) <= set(found)
    assert found["schema"] == 1
    assert found["window"] == {"begin_ns": BEGIN_NS, "end_ns": BEGIN_NS + 100 * MS}
    assert found["recommendation"]["partition"] is None
    assert found["recommendation"]["reason"]
    assert found["verdict"] == {"tone": verdict(UNEVEN).tone, "text": verdict(UNEVEN).text}


def test_tells_stages_with_integer_nanoseconds_of_every_state() -> None:
    found = json.loads(to_json(UNEVEN))
    assert found["stages"][1] == {
        "stage": 1,
        "device": "NVIDIA H200",
        "ranks": [1],
        "layers": 9,
        "bubble_ratio": 0.7,
        "states_ns": {
            "compute": 30 * MS,
            "transfer": 0,
            "idle": 0,
            "fill": 10 * MS,
            "drain": 0,
            "starved": 60 * MS,
            "blocked": 0,
            "host": 0,
        },
    }
    # 90 + 30 of 200 ms computed.
    assert found["bubble_ratio"] == 0.4
    assert found["ideal_bubble_ratio"] == 0.2


def test_names_the_culprit_or_null() -> None:
    assert json.loads(to_json(UNEVEN))["blame"] == [
        {"waiting_stage": 1, "culprit_stage": 0, "cause": "compute", "ns": 55 * MS},
        {"waiting_stage": 1, "culprit_stage": None, "cause": "unknown", "ns": 5 * MS},
    ]


def test_what_is_not_known_is_null() -> None:
    silent = without_devices_work([Device()])
    found = json.loads(to_json(replace(silent, trace=replace(silent.trace, run=Run(devices=(Device(),))))))
    assert found["engine"] is None
    assert found["layers_from"] is None
    assert found["bubble_ratio"] is None
    assert found["ideal_bubble_ratio"] is None
    assert found["pipeline"] is False
    assert found["stages"] == []
    assert found["devices"] == [{"rank": None, "host": None, "device": None, "stage": None, "states_ns": {}}]


def test_a_prompt_of_unknown_length_has_null_tokens() -> None:
    request = RequestBreakdown("r1", BEGIN_NS, None, -1, {})
    (found,) = json.loads(to_json(replace(UNEVEN, requests=(request,))))["requests"]
    assert found["prompt_tokens"] is None


def test_a_ratio_that_is_no_number_is_null() -> None:
    assert json.loads(to_json(replace(UNEVEN, bubble_ratio=float("nan"))))["bubble_ratio"] is None


def test_numbers_of_numpy_are_numbers() -> None:
    states = {"compute": np.int64(2**60)}
    found = json.loads(
        to_json(replace(UNEVEN, devices=(DeviceStates(0, 0, states),), bubble_ratio=np.float64(0.25)))
    )
    assert found["devices"][0]["states_ns"] == {"compute": 2**60}
    assert found["bubble_ratio"] == 0.25


def test_lists_requests_stragglers_findings_and_losses() -> None:
    full: Analysis = replace(
        UNEVEN,
        requests=(RequestBreakdown("r1", BEGIN_NS, 5 * MS, 32000, {"queue": 5 * MS}),),
        stragglers=(Straggler("link", 1, None, 3, "slow link"),),
        findings=(Finding("cpu-embedding", 7, 0, "embedding on the CPU", "--flag", 0.5),),
        lost=(Lost("events", "cut off", 3, damage=True),),
    )
    found = json.loads(to_json(full))
    assert found["requests"] == [
        {
            "request": "r1",
            "arrival_ns": BEGIN_NS,
            "ttft_ns": 5 * MS,
            "prompt_tokens": 32000,
            "breakdown_ns": {"queue": 5 * MS},
        }
    ]
    assert found["stragglers"] == [
        {"kind": "link", "stage": 1, "microbatch": None, "excess_ns": 3, "text": "slow link"}
    ]
    assert found["findings"] == [
        {
            "id": "cpu-embedding",
            "ns": 7,
            "stage": 0,
            "text": "embedding on the CPU",
            "flag": "--flag",
            "predicted_gain": 0.5,
        }
    ]
    assert found["lost"] == [{"what": "events", "count": 3, "why": "cut off", "damage": True}]


def test_concurrency_and_bursts_are_there_too() -> None:
    found = json.loads(to_json(UNEVEN))
    assert found["concurrency"] == [{"stages": 1, "ns": 80 * MS}, {"stages": 2, "ns": 20 * MS}]
    assert found["bursts"] == [{"begin_ns": BEGIN_NS, "end_ns": BEGIN_NS + 100 * MS, "inferred": False}]


def test_odd_bytes_of_a_file_name_do_not_stop_it() -> None:
    # A name that is not UTF-8 comes from the system with lone surrogates.
    found = json.loads(to_json(replace(UNEVEN, lost=(Lost("file \udcff", "unreadable"),))))
    assert found["lost"][0]["what"] == "file ?"
