"""Requests as vLLM's front end passes them on; those of our own load are left to who sent them."""

from __future__ import annotations

from pathlib import Path

from bubblescope.collectors._bubblescope_inject import layout
from tests.collectors.programs import recorded

PRELUDE = """
from types import SimpleNamespace as Some
from _bubblescope_inject.vllm import requests

def arrive(name, seconds_ago=0.0):
    came = time.time() - seconds_ago
    requests.arrived(None, Some(request_id=name, prompt_token_ids=[1] * 7, arrival_time=came))

def answer(name, tokens, reason=None):
    requests.answered(None, [Some(request_id=name, new_token_ids=[5] * tokens, finish_reason=reason)])
"""


def test_a_request_from_arrival_to_end(tmp_path: Path) -> None:
    process = recorded(
        PRELUDE
        + """
arrive("cmpl-1")
answer("cmpl-1", 0)  # a chunk of the prompt is done
answer("cmpl-1", 1)
answer("cmpl-1", 2)
answer("cmpl-1", 1, "length")
""",
        tmp_path,
    )
    events = [(row["event"], row["tokens"]) for row in process.requests]
    assert events == [(layout.ARRIVED, 7), (layout.FIRST_TOKEN, -1), (layout.ENDED, 4)]


def test_a_request_came_before_it_was_tokenised(tmp_path: Path) -> None:
    process = recorded(
        PRELUDE + 'arrive("cmpl-1", seconds_ago=0.25)\nrecorder.fact("now", time.monotonic_ns())', tmp_path
    )
    age_ns = int(process.facts["now"][1]) - int(process.requests["time_ns"][0])
    assert 250_000_000 <= age_ns < 1_000_000_000


def test_an_aborted_request_has_ended(tmp_path: Path) -> None:
    process = recorded(
        PRELUDE + 'arrive("cmpl-1")\nanswer("cmpl-1", 3)\nrequests.aborted(["cmpl-1", "cmpl-2"])', tmp_path
    )
    assert [(row["event"], row["tokens"]) for row in process.requests][-1] == (layout.ENDED, 3)
    assert len(process.requests) == 3


def test_requests_of_our_own_load_are_left_out(tmp_path: Path) -> None:
    process = recorded(
        PRELUDE
        + """
arrive("cmpl-bubblescope-request-1-0-abcd")
answer("cmpl-bubblescope-request-1-0-abcd", 1, "length")
recorder.fact("here", 1)
""",
        tmp_path,
    )
    assert len(process.requests) == 0
