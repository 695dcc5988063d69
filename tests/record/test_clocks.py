"""Offsets between the clocks of hosts, computed by hand from the messages between them."""

from __future__ import annotations

import pandas as pd

from bubblescope.record.clocks import Alignment, align
from bubblescope.trace import frames
from bubblescope.trace.frames import SPANS, UNKNOWN

Message = tuple[int, int, int, int, int]


def sent(source: int, destination: int, microbatch: int, begin: int, end: int) -> Message:
    return (source, destination, microbatch, begin, end)


def host(sends: list[Message] = [], receives: list[Message] = []) -> pd.DataFrame:  # noqa: B006
    """The spans of a host: messages as (source, destination, microbatch, begin, end) on its clock."""
    rows = [("send", s, d, *rest) for s, d, *rest in sends] + [
        ("recv", d, s, *rest) for s, d, *rest in receives
    ]
    kind, stage, peer, microbatch, begin, end = zip(*rows, strict=True)
    unknown = [UNKNOWN] * len(rows)
    told = {
        "kind": kind,
        "stage": stage,
        "peer": peer,
        "microbatch": microbatch,
        "begin_ns": begin,
        "end_ns": end,
    }
    return frames.table(
        SPANS,
        dict.fromkeys(SPANS.columns, unknown)
        | told
        | {"device": [0] * len(rows), "phase": ["prefill"] * len(rows), "clock": ["host"] * len(rows)},
    )


def test_messages_both_ways_bound_the_offset_from_both_sides() -> None:
    # GIVEN a second clock ahead by 1000; messages there take 30 and 50, one back takes 10
    first = host(sends=[sent(0, 1, 0, 100, 140), sent(0, 1, 1, 200, 240)], receives=[sent(1, 0, 0, 150, 190)])
    second = host(
        receives=[sent(0, 1, 0, 1050, 1130), sent(0, 1, 1, 1190, 1250)], sends=[sent(1, 0, 0, 1180, 1190)]
    )
    # THEN it is at most 1130 - 100 = 1030 ahead and at least 1180 - 190 = 990: 1010, give or take 20
    assert align([first, second]) == Alignment(
        (0, 1010), 20, "offsets between 2 hosts estimated from 3 messages matched between them"
    )


def test_a_ring_of_hosts_is_enough() -> None:
    # GIVEN three hosts, clocks ahead by 0, 500 and -200, each sending to the next in 10
    a = host(sends=[sent(0, 1, 0, 1000, 1001)], receives=[sent(2, 0, 0, 1090, 1130)])
    b = host(receives=[sent(0, 1, 0, 1490, 1510)], sends=[sent(1, 2, 0, 1550, 1551)])
    c = host(receives=[sent(1, 2, 0, 800, 860)], sends=[sent(2, 0, 0, 920, 921)])
    # b is at most 510 ahead of a, c at most -690 ahead of b, a at most 210 ahead of c. Round the ring,
    # b is at least -(-690 + 210) = 480 ahead of a; c at least -210, at most 510 - 690 = -180.
    alignment = align([a, b, c])
    assert alignment.offsets_ns == (0, 495, -195)
    # a-b: 495 +- 15; a-c: -195 +- 15; b-c: -690, of which at most -690 and at least -(510 + 210) = -720
    assert alignment.uncertainty_ns == 30


def test_messages_in_one_direction_only_align_nothing() -> None:
    first = host(sends=[sent(0, 1, 0, 100, 140)])
    second = host(receives=[sent(0, 1, 0, 1050, 1130)])
    alignment = align([first, second])
    assert (alignment.offsets_ns, alignment.uncertainty_ns) == (None, None)
    assert "only in one direction" in alignment.how


def test_unmatched_messages_align_nothing() -> None:
    first = host(sends=[sent(0, 1, 0, 100, 140)], receives=[sent(1, 0, 8, 150, 190)])
    second = host(receives=[sent(0, 1, 3, 1050, 1130)], sends=[sent(1, 0, 4, 1180, 1190)])
    assert align([first, second]).offsets_ns is None


def test_clocks_that_drift_apart_are_refused() -> None:
    # GIVEN a clock that is at most 1030 ahead by one message, and at least 1040 by a later one back
    first = host(sends=[sent(0, 1, 0, 100, 140)], receives=[sent(1, 0, 0, 5000, 5100)])
    second = host(receives=[sent(0, 1, 0, 1050, 1130)], sends=[sent(1, 0, 0, 6140, 6150)])
    alignment = align([first, second])
    assert alignment.offsets_ns is None
    assert "contradict" in alignment.how


def test_of_a_tensor_parallel_group_the_first_send_and_the_last_receive_count() -> None:
    # GIVEN two ranks a stage; which receive belongs to which send is not known
    first = host(sends=[sent(0, 1, 0, 100, 140), sent(0, 1, 0, 130, 150)], receives=[sent(1, 0, 0, 0, 400)])
    second = host(
        receives=[sent(0, 1, 0, 1050, 1130), sent(0, 1, 0, 1050, 1160)], sends=[sent(1, 0, 0, 1390, 1400)]
    )
    # at most 1160 - 100 = 1060, at least 1390 - 400 = 990
    assert align([first, second]).offsets_ns == (0, 1025)


def test_nanoseconds_survive_times_beyond_the_precision_of_floats() -> None:
    far = 2**60 + 1
    first = host(sends=[sent(0, 1, 0, 100, 140)], receives=[sent(1, 0, 0, 100, 141)])
    second = host(receives=[sent(0, 1, 0, far, far + 101)], sends=[sent(1, 0, 0, far + 140, far + 141)])
    # at most far + 1, at least far - 1
    assert align([first, second]).offsets_ns == (0, far)
