"""From the processes of a host to one trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from bubblescope.errors import NotATraceError
from bubblescope.record.assemble import assemble, traces_of
from bubblescope.trace.model import Device, Lost
from tests.collectors.programs import recorded
from tests.record.processes import declared, process, span

SECOND = 1_000_000_000


def test_spans_of_two_processes_stand_in_one_table_in_order_of_begin() -> None:
    trace = assemble([
        process([declared(0, rank=0, layers=(0, 3))],
                [span("forward", 10, 40), span("send", 40, 50, peer=1)]),
        process([declared(1, rank=1, layers=(3, 4))], [span("recv", 5, 50, peer=0)]),
    ])  # fmt: skip
    columns = ["stage", "device", "kind", "peer", "begin_ns", "end_ns", "phase", "clock"]
    assert trace.spans[columns].values.tolist() == [
        [1, 1, "recv", 0, 5, 50, "prefill", "host"],
        [0, 0, "forward", -1, 10, 40, "prefill", "host"],
        [0, 0, "send", 1, 40, 50, "prefill", "host"],
    ]
    assert trace.run.partition == (3, 1)
    assert trace.run.clock.aligned and trace.run.clock.uncertainty_ns == 0


def test_processes_that_speak_of_one_stage_share_its_device() -> None:
    # GIVEN two workers of stage 0, one scheduler that knows no rank, and one that knows the device
    trace = assemble([
        process([declared(0)], [span("schedule", 1, 2)]),
        process([declared(0, rank=1)], [span("forward", 2, 3)]),
        process([declared(0, rank=0)], [span("forward", 3, 4)]),
        process([declared(0, rank=0, device="GPU", ordinal=5)], [span("sync", 4, 5)]),
    ])  # fmt: skip
    assert trace.run.devices == (
        Device(rank=0, stage=0, ordinal=5, name="GPU", host="host"),
        Device(rank=1, stage=0, host="host"),
    )
    assert trace.spans["device"].tolist() == [0, 1, 0, 0]


def test_numbers_below_nought_say_nothing() -> None:
    sent = span("send", 1, 2) | {"bytes": -(1 << 63), "step": -2}
    assert assemble([process([declared(0, rank=0)], [sent])]).spans[["bytes", "step"]].values.tolist() == [
        [-1, -1]
    ]


def test_requests_are_put_together_from_what_several_processes_say() -> None:
    server = process(
        texts=["b", "a", "never arrived"],
        requests=[
            {"request": 0, "event": 1, "time_ns": 20, "tokens": 100},
            {"request": 1, "event": 1, "time_ns": 10, "tokens": 50, "warmup": 1},
            {"request": 2, "event": 2, "time_ns": 15},
        ],
    )
    engine = process(
        texts=["a", "b"],
        requests=[
            {"request": 0, "event": 2, "time_ns": 12},
            {"request": 0, "event": 2, "time_ns": 13},
            {"request": 0, "event": 3, "time_ns": 14, "tokens": 7},
            {"request": 1, "event": 2, "time_ns": 30},
        ],
    )
    trace = assemble([server, engine])
    rows = trace.requests.astype(object).where(trace.requests.notna(), None).values.tolist()
    assert rows == [["a", 10, 12, 14, 50, 7, True], ["b", 20, 30, None, 100, -1, False]]
    assert trace.run.lost == (Lost("requests", "their arrival is not in the recording", 1),)


def test_instants_and_counters_belong_to_their_device() -> None:
    trace = assemble([
        process([declared(0)], texts=["captured"], instants=[{"name": 0, "time_ns": 7, "stage": 0}]),
        process([declared(1)], texts=["power_w"], samples=[
            {"name": 0, "time_ns": 9, "value": 3.5, "stage": 0},
            {"name": 0, "time_ns": 8, "value": 2, "stage": 0},
        ]),
    ])  # fmt: skip
    (instant,) = trace.slices.to_dict("records")
    assert (instant["name"], instant["begin_ns"], instant["end_ns"], instant["category"]) == (
        "captured", 7, 7, "other",
    )  # fmt: skip
    assert trace.tracks.loc[instant["track"], "device"] == 0
    assert trace.counters.values.tolist() == [[1, "power_w", 8, 2.0], [1, "power_w", 9, 3.5]]


def test_of_a_fact_the_last_one_written_counts() -> None:
    run = assemble([
        process(facts={"engine": (2, '"vllm"'), "model": (1, '{"layers": 36}'), "partition": (1, "[27, 9]"),
                       "world_size": (1, "2"), "window_ns": (1, "[5, 9]"), "engine_version": (1, '"0.26"')}),
        process(facts={"engine": (1, '"guessed"'), "command": (1, '["serve", "x"]'), "chunk": (1, "4096")}),
    ]).run  # fmt: skip
    assert (run.engine, run.engine_version, run.model, run.partition) == (
        "vllm", "0.26", {"layers": 36}, (27, 9),
    )  # fmt: skip
    assert (run.world_size, run.window_ns, run.command) == (2, (5, 9), ("serve", "x"))
    assert run.facts["chunk"] == 4096


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("partition", "[1, 0]"), ("partition", "[]"), ("partition", '"27,9"'), ("engine", "3"),
        ("model", "[]"), ("window_ns", "[9, 5]"), ("window_ns", "[1]"), ("world_size", "-1"),
        ("world_size", "true"), ("command", '"serve"'), ("mine", "NaN"), ("mine", "{"), ("mine", "[" * 5000),
    ],
)  # fmt: skip
def test_facts_that_are_not_valid_are_counted(name: str, value: str) -> None:
    run = assemble([process(facts={name: (1, value)})]).run
    assert run.lost == (Lost("facts", "they are not the JSON that their name asks for", 1),)
    assert run.partition is run.engine is run.window_ns is run.world_size is None


def test_where_one_process_lost_its_oldest_the_others_begin_there_too() -> None:
    # GIVEN stage 0 from 100 on, since its older files went, and stage 1 from the start
    trace = assemble([
        process([declared(0)], [span("forward", 110, 120)], begins_ns=100, dropped=40),
        process([declared(1)], [span("forward", 20, 100), span("forward", 90, 130)]),
    ])  # fmt: skip
    # THEN what ended before is left out, since one could not say what stage 0 did then
    assert trace.spans["begin_ns"].tolist() == [90, 110]
    assert {(lost.what, lost.count) for lost in trace.run.lost} == {("events", 40), ("spans", 1)}
    assert "within its bounds" in trace.run.lost[0].why


def test_only_the_seconds_that_were_asked_for_are_kept() -> None:
    trace = assemble([
        process([declared(0)], [span("forward", 1, SECOND), span("forward", SECOND, 3 * SECOND)]),
        process(facts={"keep_seconds": (1, "2")}),
    ])  # fmt: skip
    # The last span ends at 3 s; two seconds before is 1 s.
    assert trace.spans["begin_ns"].tolist() == [SECOND]


@pytest.mark.parametrize(
    ("marked", "left"),
    [
        ("[200, 400]", (250, 400)),
        ("[300, 400]", (300, 400)),
        ("[200, 251]", (250, 251)),
        ("[200, 250]", None),
    ],
)
def test_the_measured_part_begins_no_earlier_than_what_is_kept(
    marked: str, left: tuple[int, int] | None
) -> None:
    # GIVEN a process of which the oldest went, so that everything is kept from 250 on
    trace = assemble([
        process([declared(0)], [span("forward", 260, 390)], begins_ns=250, facts={"window_ns": (1, marked)}),
    ])  # fmt: skip
    assert trace.run.window_ns == left


def test_a_span_that_had_not_ended_is_named() -> None:
    trace = assemble([process([declared(3)], open_spans=[span("recv", 1, 0, microbatch=7)])])
    assert trace.run.lost == (
        Lost("spans", "they had not ended: recv of microbatch 7 on stage 3", 1),
    )  # fmt: skip


def test_only_what_could_not_be_read_is_damage() -> None:
    reasons = {"dropped": 1, "unwritten": 1, "refused": 1, "torn": 1, "unknown": 1, "damaged": 1}
    trace = assemble([process(running=True, **reasons), process(torn=2)])
    assert [lost.count for lost in trace.run.lost] == [1, 1, 1, 3, 1, 1, 1]
    assert [lost.why for lost in trace.run.lost if lost.damage] == ["the spool holds values that cannot be"]


def test_a_folder_becomes_one_trace_per_host(tmp_path: Path) -> None:
    recorded(
        """
        with recorder.stage(0, rank=0).span("forward", microbatch=5):
            pass
        """,
        tmp_path,
    )
    (trace,) = traces_of(str(tmp_path))
    assert trace.spans["microbatch"].tolist() == [5]
    (path,) = tmp_path.iterdir()
    foreign = path.read_bytes().replace(path.read_bytes()[64:100], b"another-boot".ljust(36, b"\0"))
    (tmp_path / f"{path.stem}9.spool".replace("-000000", "x-000000")).write_bytes(foreign)
    assert len(traces_of(str(tmp_path))) == 2


def test_a_folder_with_nothing_but_facts_is_refused_in_words(tmp_path: Path) -> None:
    recorded("recorder.fact('engine', 'mine')", tmp_path)
    with pytest.raises(NotATraceError, match="no process wrote an event"):
        traces_of(str(tmp_path))
