"""Timelines that no profiler of devices wrote."""

from __future__ import annotations

import json
from pathlib import Path

from bubblescope.trace.model import Device
from bubblescope.trace.read import read_trace
from tests.trace.files import complete, half, kernel, label, read, rows, said


def step(name: str, ts: float, lane: str) -> dict[str, object]:
    return complete(None, name, ts, 5, pid="0", tid=lane)


def test_lanes_of_a_pipeline_are_stages(tmp_path: Path) -> None:
    # GIVEN a bare list of two stages' steps, each lane named by a text, as PyTorch's PiPPy draws them
    steps = [step(f"{phase}_{stage},{mb}", 10 * mb, str(5 + stage))
             for stage in (1, 0) for phase in "FB" for mb in (0, 1)]  # fmt: skip
    trace = read(tmp_path, steps)
    # THEN each lane is a device that works, its stage is in the names
    assert trace.run.devices == (Device(stage=0), Device(stage=1))
    assert set(trace.slices["category"]) == {"kernel"}
    lane_of_stage = {trace.tracks["device"][track]: trace.tracks["lane"][track] for track in (0, 1)}
    assert lane_of_stage == {0: "5", 1: "6"}
    assert said(trace) == {"devices": 2}
    assert "lanes taken as devices" in trace.run.lost[0].why


def test_the_stage_is_the_lane_where_the_first_number_is_not(tmp_path: Path) -> None:
    # GIVEN names that begin with the microbatch
    trace = read(
        tmp_path, [step(f"F_{mb},{stage}", 10 * mb, str(stage)) for stage in (0, 1) for mb in (0, 1)]
    )
    assert [device.stage for device in trace.run.devices] == [0, 1]


def test_other_names_tell_no_stage(tmp_path: Path) -> None:
    trace = read(tmp_path, [step("F_0,0", 1, "0"), step("work", 1, "1")])
    assert trace.run.devices == (Device(), Device())


def test_lanes_bear_their_names(tmp_path: Path) -> None:
    trace = read(tmp_path, [label("thread_name", "GPU A", "0", "1"), step("work", 1, "1")])
    assert list(trace.tracks["lane"]) == ["GPU A"]


def test_a_name_like_a_communication_kernel_is_one_on_a_plain_lane_too(tmp_path: Path) -> None:
    trace = read(tmp_path, [complete(None, "ncclDevKernel_AllReduce_Sum", 1, 1)])
    assert rows(trace, "operation") == [("allreduce",)]


def test_begins_and_ends_make_lanes_too(tmp_path: Path) -> None:
    trace = read(tmp_path, [half("B", 1, "a"), half("E", 2)])
    assert rows(trace, "name", "category") == [("a", "kernel")]


def test_categories_that_name_no_device_work_are_the_host(tmp_path: Path) -> None:
    # GIVEN a trace of a browser, say
    trace = read(
        tmp_path,
        [complete("toplevel", "task", 1, 5, pid=3, tid=4), complete("cc", "draw", 2, 1, pid=3, tid=5)],
    )
    # THEN nothing is called a device's work, and one entry stands for the process
    assert set(trace.slices["category"]) == {"host_range"}
    assert trace.run.devices == (Device(),)
    assert set(trace.tracks["kind"]) == {"thread"}


def test_one_category_of_devices_is_enough(tmp_path: Path) -> None:
    trace = read(tmp_path, [kernel(1, 1), complete(None, "else", 2, 1, pid=8, tid=8)])
    assert rows(trace, "name") == [("gemm",)]


def test_a_list_without_its_end_is_read_whole(tmp_path: Path) -> None:
    text = "[\n" + ",\n".join(json.dumps(kernel(i, 1)) for i in range(3)) + ",\n"
    trace = read(tmp_path, text)
    assert len(trace.slices) == 3
    assert set(said(trace)) == {"rank"}


def test_names_that_are_no_text(tmp_path: Path) -> None:
    events = [{**kernel(i, 1), "name": name} for i, name in enumerate([None, 7, "7", True])]
    assert rows(read(tmp_path, events), "name") == [("",), ("7",), ("7",), ("True",)]


def test_text_that_is_not_utf8_counts_as_damage(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(b'[{"ph":"X","cat":"kernel","name":"a\xff","pid":0,"tid":7,"ts":1,"dur":2}]')
    (lost,) = [lost for lost in read_trace(path).run.lost if lost.damage]
    assert (lost.what, lost.count) == ("text that is not UTF-8", 1)
