"""Waits for tokens that the host samples for all devices, which no message shows."""

from __future__ import annotations

from collections.abc import Sequence

from bubblescope.analyzers.analysis import analyze
from bubblescope.analyzers.results import Analysis
from tests.analyzers.spans import Span, recording

#: Two tokens over three devices, 10 each. The first is sampled from 30 to 32, and the host needs until 36 to
#: launch the next; nothing of that is in a message.
STEPS = [
    span
    for number, at in enumerate((0, 36))
    for span in (
        *(
            Span(
                "forward",
                stage,
                at + 10 * stage,
                at + 10 * stage + 10,
                number,
                clock="device",
                phase="decode",
            )
            for stage in range(3)
        ),
        Span("sample", 2, at + 30, at + 32, number, phase="decode"),
    )
]
LAUNCHED = Span("embed", 0, 33, 35, 1, phase="decode")


def analyzed(spans: Sequence[Span], engine: str = "llama.cpp") -> Analysis:
    return analyze(recording(spans, 3, {}, engine))


def blamed(analysis: Analysis) -> list[tuple[int, int, str, int]]:
    rows = analysis.blame[["waiting_stage", "culprit_stage", "cause", "ns"]].values.tolist()
    return [tuple(row) for row in rows]


def test_all_devices_but_the_last_wait_until_the_token_is_sampled() -> None:
    # Stage 0 waits from 10 to 32, and then for its host until 36; stage 1 from 20 on; for stage 2 the host
    # samples.
    found = [row for row in blamed(analyzed([*STEPS, LAUNCHED])) if row[2] == "token"]
    assert found == [(0, 2, "token", 22), (1, 2, "token", 12)]
    first = analyzed([*STEPS, LAUNCHED]).stages[0].states_ns
    assert (first["compute"], first["starved"], first["host"]) == (20, 22, 4)


def test_a_host_that_goes_on_without_the_token_waits_for_none() -> None:
    early = Span("embed", 0, 25, 27, 1, phase="decode")
    assert not [row for row in blamed(analyzed([*STEPS, early])) if row[2] == "token"]


def test_other_engines_tell_of_their_tokens_by_messages() -> None:
    assert not [row for row in blamed(analyzed([*STEPS, LAUNCHED], "vllm")) if row[2] == "token"]
