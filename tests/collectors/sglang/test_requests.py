"""Requests as SGLang's front end passes them on, in the forms of its versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from bubblescope.collectors._bubblescope_inject import layout
from tests.collectors.programs import recorded

PRELUDE = """
from types import SimpleNamespace as Some
from _bubblescope_inject.sglang import requests

class FrontEnd:
    def __init__(self, **states):
        self.rid_to_state = states

def tokenized(name, tokens=7):
    return Some(rid=name, input_ids=[1] * tokens)

def answer(name, tokens, reason=None):
    told = Some(rids=[name], completion_tokens=[tokens], finished_reasons=[reason])
    requests.answered(FrontEnd(), told)
"""


def test_a_request_from_arrival_to_end(tmp_path: Path) -> None:
    process = recorded(
        PRELUDE
        + """
requests.arrived(FrontEnd(), tokenized("a"))
answer("a", 0)
answer("a", 1)
answer("a", 3)  # all that there are so far
answer("a", 4, {"type": "length"})
""",
        tmp_path,
    )
    events = [(row["event"], row["tokens"]) for row in process.requests]
    assert events == [(layout.ARRIVED, 7), (layout.FIRST_TOKEN, -1), (layout.ENDED, 4)]


@pytest.mark.parametrize(
    "call",
    [
        'requests.arrived(FrontEnd(), tokenized("a"))',
        # Up to 0.5.9:
        'requests.arrived(FrontEnd(), Some(rid="a", text="?", input_ids=None), tokenized("a"), 0.0)',
        'requests.arrived(FrontEnd(), [tokenized("a")])',
        'requests.arrived(FrontEnd(), tokenized_obj=tokenized("a"))',
    ],
)
def test_a_request_is_found_among_the_arguments(tmp_path: Path, call: str) -> None:
    process = recorded(PRELUDE + call, tmp_path)
    assert [(row["event"], row["tokens"]) for row in process.requests] == [(layout.ARRIVED, 7)]


@pytest.mark.parametrize(
    "state",
    [
        "Some(time_stats=Some(created_time=time.perf_counter() - 0.25))",  # since 0.5.10
        "Some(created_time=time.time() - 0.25)",
    ],
)
def test_a_request_came_before_it_was_tokenised(tmp_path: Path, state: str) -> None:
    process = recorded(
        PRELUDE
        + f'requests.arrived(FrontEnd(a={state}), tokenized("a"))\n'
        + 'recorder.fact("now", time.monotonic_ns())',
        tmp_path,
    )
    age_ns = int(process.facts["now"][1]) - int(process.requests["time_ns"][0])
    assert 249_000_000 <= age_ns < 1_000_000_000


def test_a_request_that_is_given_up_has_ended(tmp_path: Path) -> None:
    process = recorded(
        PRELUDE + 'requests.arrived(FrontEnd(), tokenized("a"))\nrequests.aborted(FrontEnd(), Some(rid="a"))',
        tmp_path,
    )
    assert [row["event"] for row in process.requests] == [layout.ARRIVED, layout.ENDED]
