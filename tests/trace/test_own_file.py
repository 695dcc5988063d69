"""Our own file: what is written reads back exactly, whole or not at all, whatever is done to it."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bubblescope.errors import BubblescopeError, NotATraceError, UsageError
from bubblescope.trace import frames
from bubblescope.trace.frames import COUNTERS, REQUESTS, SLICES, SPANS, TRACKS
from bubblescope.trace.model import Device, Run, Trace
from bubblescope.trace.read import read_trace
from bubblescope.trace.redact import redacted
from bubblescope.trace.write import write_trace
from tests.trace.files import damaged
from tests.trace.recordings import traces

TABLES = ("tracks", "slices", "spans", "requests", "counters")
shared_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])

SPAN = {
    "stage": 0, "device": 0, "step": 1, "microbatch": 2, "kind": "forward", "phase": "prefill",
    "tokens": 4096, "prefix": 0, "layer_begin": 0, "layer_end": 27, "peer": -1, "bytes": -1,
    "begin_ns": 10, "end_ns": 90, "clock": "device",
}  # fmt: skip


def a_trace() -> Trace:
    """One row in every table."""
    slices = {
        "track": [0], "name": ["gemm"], "category": ["kernel"],
        "begin_ns": [1 << 60], "end_ns": [(1 << 60) + 1],
        "correlation": [5], "operation": [""], "group": [""], "peer": [-1], "bytes": [-1],
    }  # fmt: skip
    requests = {
        "request": ["r1"], "arrival_ns": [5], "first_token_ns": [None], "end_ns": [95], "prompt_tokens": [9],
        "output_tokens": [1], "warmup": [True],
    }  # fmt: skip
    tracks = {"device": [0], "process": ["p"], "lane": ["stream 7"], "kind": ["stream"]}
    return Trace(
        Run(devices=(Device(rank=0, stage=0, name="NVIDIA H200"),), engine="vllm", partition=(27, 9)),
        tracks=frames.table(TRACKS, tracks),
        slices=frames.table(SLICES, slices),
        spans=frames.table(SPANS, {name: [value] for name, value in SPAN.items()}),
        requests=frames.table(REQUESTS, requests),
        counters=frames.table(COUNTERS, {"device": [0], "name": ["mhz"], "time_ns": [7], "value": [1980.5]}),
    )


def assert_same(one: Trace, other: Trace) -> None:
    assert one.run == other.run
    for name in TABLES:
        pd.testing.assert_frame_equal(getattr(one, name), getattr(other, name), check_exact=True)


@shared_folder
@given(trace=traces(), suffix=st.sampled_from([".json", ".json.gz"]))
def test_reading_undoes_writing(tmp_path: Path, trace: Trace, suffix: str) -> None:
    path = tmp_path / f"trace{suffix}"
    write_trace(trace, path, force=True)
    assert_same(read_trace(path), redacted(trace))


def test_redaction_leaves_an_ordinary_recording_alone() -> None:
    assert_same(redacted(a_trace()), a_trace())


def test_many_rows_keep_their_order(tmp_path: Path) -> None:
    count = 45_000
    begins = np.random.default_rng(1).integers(0, 1 << 60, count)
    one = a_trace().slices
    slices = pd.concat([one] * count, ignore_index=True)
    slices["name"] = pd.Categorical([f"k{i % 97}" for i in range(count)])
    slices["begin_ns"], slices["end_ns"], slices["correlation"] = begins, begins + 1, np.arange(count)
    trace = Trace(a_trace().run, tracks=a_trace().tracks, slices=slices)
    write_trace(trace, tmp_path / "t.json.gz")
    assert_same(read_trace(tmp_path / "t.json.gz"), trace)


def test_a_viewer_finds_what_it_knows(tmp_path: Path) -> None:
    # GIVEN a file of ours WHEN a viewer of Chrome traces opens it
    path = tmp_path / "t.json"
    write_trace(a_trace(), path)
    content = json.loads(path.read_text())
    # THEN lanes have names, slices and spans have durations, counters values, requests begin and end
    by_phase: dict[str, list[dict[str, Any]]] = {}
    for event in content["traceEvents"]:
        assert isinstance(event["pid"], int)
        by_phase.setdefault(event["ph"], []).append(event)
    names = {(e["name"], e["pid"], e["tid"]): e["args"]["name"] for e in by_phase["M"]}
    assert names["process_name", 0, 0] == "device 0 · NVIDIA H200 · rank 0 · stage 0"
    assert names["process_name", 1, 0] == "requests"
    assert [(e["name"], e["dur"]) for e in by_phase["X"]] == [("gemm", 0.001), ("forward", 0.08)]
    assert all(("thread_name", e["pid"], e["tid"]) in names for e in by_phase["X"])
    assert [e["args"] for e in by_phase["C"]] == [{"value": 1980.5}]
    assert [(e["ts"], e["id"], e["cat"]) for e in by_phase["b"] + by_phase["e"]] == [
        (0.0, 0, "request"),
        (0.09, 0, "request"),
    ]
    assert content["bubblescope"]["schema"] == 1


def test_equal_recordings_give_equal_files(tmp_path: Path) -> None:
    for name in ("a.json.gz", "b.json.gz"):
        write_trace(a_trace(), tmp_path / name)
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()


def test_nothing_is_overwritten_without_force(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text("mine")
    with pytest.raises(UsageError, match=r"t\.json exists; --force overwrites it$"):
        write_trace(a_trace(), path)
    assert path.read_text() == "mine"
    write_trace(a_trace(), path, force=True)
    assert_same(read_trace(path), a_trace())
    with pytest.raises(UsageError, match="is no regular file"):
        write_trace(a_trace(), tmp_path, force=True)


@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
def test_a_full_disk_leaves_no_half_file(tmp_path: Path, name: str) -> None:
    # GIVEN a process that may write 4 KiB only WHEN it writes a bigger recording
    program = (
        "import resource, signal, sys\n"
        "from bubblescope.errors import UsageError\n"
        "from bubblescope.trace.write import write_trace\n"
        "from tests.trace.test_own_file import a_trace, big\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "try: write_trace(big(), sys.argv[1], force=True)\n"
        "except UsageError as error: print(error)\n"
    )
    path = tmp_path / name
    path.write_text("before")
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    # THEN it says so in one line, and what was there before is untouched
    assert (done.stdout, done.stderr) == (f"cannot write {path}: File too large\n", "")
    assert os.listdir(tmp_path) == [name]
    assert path.read_text() == "before"


def big() -> Trace:
    noise = np.random.default_rng(1).integers(0, 1 << 60, 20_000)
    columns = {"device": np.zeros(20_000), "name": ["mhz"] * 20_000, "time_ns": noise, "value": noise * 1.5}
    return Trace(a_trace().run, counters=frames.table(COUNTERS, columns))


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^cannot write .*no/t\.json: No such file or directory$"):
        write_trace(a_trace(), tmp_path / "no" / "t.json")


def test_facts_that_json_cannot_hold(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written as JSON"):
        write_trace(Trace(Run(facts={"a": object()})), tmp_path / "t.json")
    assert os.listdir(tmp_path) == []


# --- files that were tampered with


def changed(tmp_path: Path, change: Any) -> Trace:
    """The trace in our file after `change` was done to its JSON."""
    path = tmp_path / "t.json"
    write_trace(a_trace(), path, force=True)
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    return read_trace(path)


def events_of(content: dict[str, Any], phase: str) -> list[dict[str, Any]]:
    return [event for event in content["traceEvents"] if event["ph"] == phase]


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        NotATraceError, match=r"t\.json was written by a newer Bubblescope \(schema 2, this one reads 1\)"
    ):
        changed(tmp_path, lambda content: content["bubblescope"].update(schema=2, run="all new"))


def head(run: Any = None, **tracks: Any) -> dict[str, Any]:
    """A header with one track, or what is given."""
    table = {"device": [0], "process": ["p"], "lane": ["l"], "kind": ["stream"], **tracks}
    return {"schema": 1, "run": {"devices": [{}]} if run is None else run, "tracks": table, "rows": {}}


@pytest.mark.parametrize(
    "header",
    [
        None, 5, [], {}, {"schema": "1"}, {"schema": 1}, {**head(), "tracks": {}},
        {**head(), "rows": {"slices": "x"}},
        head(run={"devices": [{"rank": "x"}]}), head(run={"partition": [1.5]}), head(run=[]),
        head(device=[5]), head(device=[]), head(kind=["pipe"]), head(lane=[7]), head(device=[1 << 40]),
    ],
)  # fmt: skip
def test_a_head_that_makes_no_sense(tmp_path: Path, header: Any) -> None:
    with pytest.raises(NotATraceError, match=r"^damaged: .*t\.json.*$") as caught:
        changed(tmp_path, lambda content: content.update(bubblescope=header))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        {"tid": 7}, {"tid": -1}, {"tid": "0"}, {"tid": 1 << 40}, {"name": 5}, {"args": None}, {"args": {}},
        {"args": {"begin_ns": 5, "end_ns": 4}}, {"args": {"begin_ns": 5.5, "end_ns": 6}},
        {"args": {"begin_ns": 5, "end_ns": 1 << 63}}, {"args": {"begin_ns": 5, "end_ns": 6, "peer": "x"}},
    ],
)  # fmt: skip
def test_a_slice_that_makes_no_sense_is_left_out(tmp_path: Path, change: dict[str, Any]) -> None:
    trace = changed(tmp_path, lambda content: events_of(content, "X")[0].update(change))
    assert (len(trace.slices), len(trace.spans)) == (0, 1)
    assert damaged(trace) == ["rows of slices", "broken rows"]


@pytest.mark.parametrize(
    ("table", "phase", "change"),
    [
        ("spans", "X", {"args": {**SPAN, "kind": "dream"}}),
        ("spans", "X", {"args": {**SPAN, "device": 3}}),
        ("spans", "X", {"args": {**SPAN, "end_ns": 1}}),
        ("spans", "X", {"args": {**SPAN, "tokens": None}}),
        ("requests", "b", {"args": {"arrival_ns": 1}}),
        ("requests", "b", {"name": None}),
        ("counters", "C", {"args": {"value": "many"}}),
        ("counters", "C", {"time_ns": None}),
        ("counters", "C", {"pid": 9}),
    ],
)
def test_rows_of_other_tables_that_make_no_sense(
    tmp_path: Path, table: str, phase: str, change: dict[str, Any]
) -> None:
    trace = changed(tmp_path, lambda content: events_of(content, phase)[-1].update(change))
    assert len(getattr(trace, table)) == 0
    assert damaged(trace) == [f"rows of {table}", "broken rows"]


def test_events_of_others_in_our_file_are_passed_over(tmp_path: Path) -> None:
    trace = changed(
        tmp_path, lambda content: content["traceEvents"].append({"ph": "X", "cat": "x", "name": "y"})
    )
    assert_same(trace, a_trace())


def test_a_head_behind_the_events_is_refused(tmp_path: Path) -> None:
    def last(content: dict[str, Any]) -> None:
        content["bubblescope"] = content.pop("bubblescope")

    with pytest.raises(NotATraceError, match="does not stand before the events"):
        changed(tmp_path, last)


def test_a_recording_of_ours_among_others_is_refused(tmp_path: Path) -> None:
    write_trace(a_trace(), tmp_path / "a.json")
    write_trace(a_trace(), tmp_path / "b.json")
    with pytest.raises(
        NotATraceError, match="holds several recordings, not the ranks of one; name a file, for example "
    ):
        read_trace(tmp_path)
    (tmp_path / "b.json").unlink()
    assert_same(read_trace(tmp_path), a_trace())


def test_cut_anywhere_it_is_a_prefix_or_one_line(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    write_trace(a_trace(), path)
    content = path.read_bytes()
    for end in range(0, len(content) - 3, 11):  # what follows is blank, or closes the list
        path.write_bytes(content[:end])
        try:
            trace = read_trace(path)
        except BubblescopeError as error:
            assert len(str(error).splitlines()) == 1
        else:
            assert damaged(trace)


@shared_folder
@given(data=st.data())
def test_flipped_bytes_never_crash(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "t.json"
    write_trace(a_trace(), path, force=True)
    content = bytearray(path.read_bytes())
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=4)):
        content[place] = data.draw(st.integers(0, 255))
    path.write_bytes(content if data.draw(st.booleans()) else gzip.compress(content))
    try:
        read_trace(path)
    except BubblescopeError as error:
        assert len(str(error).splitlines()) == 1
