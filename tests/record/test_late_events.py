"""No message is received before it is sent, however late the thread woke up that saw it sent."""

from __future__ import annotations

from bubblescope.record.late_events import sent_in_time
from bubblescope.record.spool import Process
from tests.record.processes import declared, process, span

STAGES = [declared(0, 0), declared(1, 1), declared(2, 2)]
LLAMA = {"llama_device_times": (0, "{}")}


def begins(of: Process) -> list[int]:
    return of.spans["begin_ns"].tolist()


def test_a_send_begins_no_later_than_its_receive_ends() -> None:
    spans = [
        span("send", 130, 140, stage=0, microbatch=7, peer=1),  # seen 30 late: its receive ends at 100
        span("recv", 20, 100, stage=1, microbatch=7, peer=0),
        span("send", 90, 95, stage=0, microbatch=6, peer=1),
        span("recv", 10, 99, stage=1, microbatch=6, peer=0),
        span("send", 300, 310, stage=1, microbatch=6, peer=2),  # to another stage: ends at 250
        span("recv", 200, 250, stage=2, microbatch=6, peer=1),
    ]
    (fixed,) = sent_in_time([process(STAGES, spans, facts=LLAMA)])
    assert begins(fixed) == [100, 20, 90, 10, 250, 200]


def test_several_messages_of_a_microbatch_are_taken_in_order() -> None:
    spans = [
        span("send", 15, 16, microbatch=1, peer=1), span("send", 60, 61, microbatch=1, peer=1),
        span("recv", 5, 50, stage=1, microbatch=1, peer=0),
        span("recv", 1, 14, stage=1, microbatch=1, peer=0),
    ]  # fmt: skip
    (fixed,) = sent_in_time([process(STAGES, spans, facts=LLAMA)])
    assert begins(fixed) == [14, 50, 5, 1]


def test_where_the_ends_do_not_match_nothing_is_changed() -> None:
    spans = [
        span("send", 130, 140, microbatch=7, peer=1),
        span("recv", 20, 100, stage=1, microbatch=8, peer=0),
    ]
    (same,) = sent_in_time([process(STAGES, spans, facts=LLAMA)])
    assert begins(same) == [130, 20]


def test_other_engines_are_left_alone() -> None:
    spans = [
        span("send", 130, 140, microbatch=7, peer=1),
        span("recv", 20, 100, stage=1, microbatch=7, peer=0),
    ]
    (same,) = sent_in_time([process(STAGES, spans)])
    assert begins(same) == [130, 20]
