"""A program that ggml is linked into is seen through ggml's tables, if it has its symbols."""

from __future__ import annotations

import dataclasses
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pytest

from bubblescope.native.build import build
from bubblescope.native.libraries import LIBRARIES
from bubblescope.record.assemble import traces_of
from bubblescope.trace.model import Trace
from bubblescope.trace.read import read_trace
from tests.collectors.ggml.inside import compiled_inside
from tests.collectors.ggml.running import (
    Programs,
    compiled,
    environment,
    of_kind,
    recorded,
    sanitizing,
)
from tests.engines.llamacpp.running import installed
from tests.record.commands import ROOT

pytestmark = installed

#: A prompt of 1024 tokens in four ubatches, and one token after it.
PROMPT = ("0+256", "256+256", "512+256", "768+256", "1024+1")
#: Bytes of the activations of a token: 64 numbers of 4 bytes each.
ACTIVATION = 64 * 4


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    """As for programs beside ggml, but for the one that decodes."""
    folder = tmp_path_factory.mktemp("programs")
    return dataclasses.replace(compiled(folder), decode=compiled_inside(folder / "inside"))


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the fake GPUs wrote down of the run that `trace` records."""
    return tmp_path_factory.mktemp("log") / "devices"


@pytest.fixture(scope="module")
def trace(programs: Programs, log: Path, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    spool = tmp_path_factory.mktemp("spool")
    variables = {"FAKE_GPU_LOG": log, "FAKE_GPU_NODE_US": "400,400,400"}
    return recorded(programs, spool, str(programs.model), *PROMPT, **variables)


def rows(spans: pd.DataFrame, *columns: str) -> list[tuple[object, ...]]:
    return sorted(spans[list(columns)].itertuples(index=False, name=None))


def run(program: Path, programs: Programs, *words: str, **variables: str | Path) -> None:
    """The program ends as it does without a recording."""
    done = subprocess.run(
        [str(program), str(programs.model), *words], env=environment(programs, **variables),
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr[-2000:]


def test_the_stages_are_the_devices_that_hold_layers(trace: Trace) -> None:
    stages = [(device.stage, device.name) for device in trace.run.devices]
    assert stages == [(0, "FAKE0"), (1, "FAKE1"), (2, "FAKE2")]
    assert trace.run.partition == (3, 3, 2)
    assert trace.run.facts["llama_layer_devices"] == ["FAKE0"] * 3 + ["FAKE1"] * 3 + ["FAKE2"] * 2
    assert trace.run.facts["llama_output_device"] == "FAKE2"
    assert trace.run.facts["llama_embedding_device"] == "CPU"


def test_a_forward_has_its_device_its_layers_and_its_tokens(trace: Trace) -> None:
    ubatches = [*((m, "prefill", 256, 256 * m) for m in range(4)), (4, "decode", 1, 1024)]
    layers = [(0, 3), (3, 6), (6, 8)]
    expected = [(stage, *ubatch, *held) for stage, held in enumerate(layers) for ubatch in ubatches]
    forward = of_kind(trace, "forward")
    columns = ("stage", "microbatch", "phase", "tokens", "prefix", "layer_begin", "layer_end")
    assert rows(forward, *columns) == expected
    # Which llama_decode they were part of does not show.
    assert set(forward["step"]) == {-1}


def test_a_forward_lies_where_the_device_says_that_it_computed(trace: Trace, log: Path) -> None:
    forward = of_kind(trace, "forward")
    assert set(forward["clock"]) == {"device"}
    lines = [line.split() for line in log.read_text().splitlines()]
    alike = []
    for stage in range(3):
        truth = [
            (int(begin), int(end))
            for name, what, begin, end in lines
            if (name, what) == (f"FAKE{stage}", "compute")
        ]
        of_stage = forward[forward["stage"] == stage].sort_values("microbatch")
        assert len(of_stage) == len(truth) == 5
        for (begin, end), row in zip(truth, of_stage.itertuples(), strict=True):
            alike.append(min(end, row.end_ns) - max(begin, row.begin_ns) > (end - begin) / 2)
    # A thread of ours wakes up late on a busy machine; of most the most must be the same.
    assert sum(alike) > len(alike) / 2


def test_activations_are_sent_and_received_once_per_ubatch(trace: Trace) -> None:
    bytes_of = [256 * ACTIVATION] * 4 + [ACTIVATION]
    expected = sorted((m, stage, stage + 1, bytes_of[m]) for m in range(5) for stage in (0, 1))
    assert rows(of_kind(trace, "send"), "microbatch", "stage", "peer", "bytes") == expected
    assert rows(of_kind(trace, "recv"), "microbatch", "peer", "stage", "bytes") == expected


def test_what_the_host_does_is_told_as_far_as_it_shows(trace: Trace) -> None:
    embed = of_kind(trace, "embed")
    lookups = embed[embed["bytes"] >= 0]
    bytes_of = [256 * ACTIVATION] * 4 + [ACTIVATION]
    assert rows(lookups, "microbatch", "bytes") == list(enumerate(bytes_of))
    # Inputs are filled in before, and the graph is made before that.
    filled = embed[embed["bytes"] < 0]
    made = of_kind(trace, "schedule")
    assert filled["microbatch"].tolist() == made["microbatch"].tolist() == [0, 1, 2, 3, 4]
    assert (filled["end_ns"].to_numpy() <= lookups["begin_ns"].to_numpy()).all()
    assert (made["end_ns"].to_numpy() <= filled["begin_ns"].to_numpy()).all()
    # Positions go to each device.
    positions = of_kind(trace, "copy").query("microbatch == 1 and bytes == 256 * 4")
    assert positions["stage"].tolist() == [0, 1, 2]
    assert of_kind(trace, "sample").empty


def test_the_facts_say_how_it_was_seen_and_what_lacks(trace: Trace) -> None:
    facts = trace.run.facts
    assert (trace.run.engine, trace.run.engine_version) == ("llama.cpp", "ggml inside")
    assert facts["llama_seen_by"] == "tables"
    assert (facts["llama_splits"], facts["llama_copies"]) == (4, 4)
    assert (facts["llama_pipelining"], facts["llama_pipelining_lacks"]) == (True, [])
    assert facts["llama_device_times"] == {f"FAKE{number}": "events" for number in range(3)}
    assert [lost.what for lost in trace.run.lost] == ["host activity"]
    assert "no sampling" in trace.run.lost[0].why


def test_devices_without_events_are_told_not_to_pipeline(programs: Programs, tmp_path: Path) -> None:
    trace = recorded(programs, tmp_path, str(programs.model), *PROMPT, FAKE_GPU_SYNCHRONOUS="1")
    facts = trace.run.facts
    assert (facts["llama_pipelining"], facts["llama_copies"]) == (False, 1)
    assert facts["llama_pipelining_lacks"] == ["events"]
    assert trace.run.partition == (3, 3, 2)
    assert len(of_kind(trace, "forward")) == 15


@pytest.mark.parametrize(
    ("positions", "phase", "tokens", "prefix"),
    [
        ("512+4", "prefill", 4, 512),
        ("512+2,64+2", "prefill", 4, (2 * 512 + 2 * 64) // 4),
        ("512+3,64+1", "mixed", 4, (3 * 512 + 64) // 4),
        ("512+1,64+1,9+1", "decode", 3, (512 + 64 + 9) // 3),
    ],
)
def test_several_sequences_are_told_apart_by_their_positions(
    programs: Programs, tmp_path: Path, positions: str, phase: str, tokens: int, prefix: int
) -> None:
    trace = recorded(programs, tmp_path, str(programs.model), positions)
    assert set(rows(of_kind(trace, "forward"), "phase", "tokens", "prefix")) == {(phase, tokens, prefix)}


def test_what_is_no_ubatch_is_left_out(programs: Programs, tmp_path: Path) -> None:
    log = tmp_path / "log"
    (tmp_path / "spool").mkdir()
    words = ("shift", "0+256", "shift", "256+256", "shift")
    trace = recorded(programs, tmp_path / "spool", str(programs.model), *words, FAKE_GPU_LOG=log)
    # The first device computed three times more than ubatches are.
    assert log.read_text().count("FAKE0 compute") == 5
    forward = of_kind(trace, "forward")
    assert rows(forward, "microbatch", "stage") == [(m, stage) for m in (0, 1) for stage in (0, 1, 2)]


def test_record_needs_no_log_of_it_and_says_what_lacks(programs: Programs, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bubblescope", "record", "-o", "t.json", "--", str(programs.decode),
         str(programs.model), *PROMPT],
        cwd=tmp_path, env=environment(programs, PYTHONPATH=ROOT), capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr[-2000:]
    assert "3 stages" in done.stderr.splitlines()[-1]
    assert len(of_kind(read_trace(tmp_path / "t.json"), "forward")) == 15


def test_nothing_is_written_without_a_recording(programs: Programs, tmp_path: Path) -> None:
    run(programs.decode, programs, *PROMPT, LD_PRELOAD=build(LIBRARIES["ggml"]), TMPDIR=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_stripped_program_is_left_alone(programs: Programs, tmp_path: Path) -> None:
    stripped, spool = tmp_path / "llama-cli", tmp_path / "spool"
    subprocess.run(["strip", str(programs.decode), "-o", str(stripped)], check=True)
    spool.mkdir()
    run(stripped, programs, *PROMPT, LD_PRELOAD=build(LIBRARIES["ggml"]), BUBBLESCOPE_SPOOL=spool)
    assert list(spool.iterdir()) == []


#: Fields of an ELF file: where its list of sections is, and how long; of a section: type, offset, size, link.
_SECTIONS, _COUNT = 0x28, 0x3C
_TYPE, _OFFSET, _SIZE, _LINK = 4, 24, 32, 40
_SYMBOL_TABLE = 2


def damaged(program: bytes, what: str, value: int) -> bytes:
    """The program with a number in its list of sections, or in the symbol table's entry, that cannot be."""
    data = bytearray(program)
    (at,) = struct.unpack_from("<Q", data, _SECTIONS)
    (count,) = struct.unpack_from("<H", data, _COUNT)
    places = (at + 64 * number for number in range(count))
    table = next(p for p in places if struct.unpack_from("<I", data, p + _TYPE)[0] == _SYMBOL_TABLE)
    (link,) = struct.unpack_from("<I", data, table + _LINK)
    fields = {
        "sections": (_SECTIONS, "<Q"), "offset": (table + _OFFSET, "<Q"), "size": (table + _SIZE, "<Q"),
        "link": (table + _LINK, "<I"), "names": (at + 64 * link + _OFFSET, "<Q"),
        "size of names": (at + 64 * link + _SIZE, "<Q"),
    }  # fmt: skip
    place, how = fields[what]
    struct.pack_into(how, data, place, value)
    return bytes(data)


_DAMAGES: Sequence[tuple[str, int]] = (
    ("sections", 2**64 - 8), ("sections", 2**40), ("sections", 65), ("offset", 2**63), ("offset", 7),
    ("size", 2**64 - 1), ("size", 0), ("link", 2**32 - 1), ("link", 0), ("names", 2**64 - 1),
    ("size of names", 2**63), ("size of names", 1),
)  # fmt: skip


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return sanitizing(tmp_path_factory.mktemp("sanitized"))


def checked(sanitized: dict[str, str], spool: Path) -> dict[str, str | Path]:
    spool.mkdir()
    return {"BUBBLESCOPE_SPOOL": spool, **sanitized}


def test_the_sanitizers_find_nothing(programs: Programs, sanitized: dict[str, str], tmp_path: Path) -> None:
    run(programs.decode, programs, *PROMPT, **checked(sanitized, tmp_path / "spool"))
    (trace,) = traces_of(str(tmp_path / "spool"))
    assert len(of_kind(trace, "forward")) == 15


@pytest.mark.parametrize(("what", "value"), _DAMAGES)
def test_a_program_with_a_damaged_symbol_table_runs_as_ever(
    programs: Programs, sanitized: dict[str, str], tmp_path: Path, what: str, value: int
) -> None:
    program, spool = tmp_path / "llama-cli", tmp_path / "spool"
    program.write_bytes(damaged(programs.decode.read_bytes(), what, value))
    program.chmod(0o700)
    run(program, programs, "0+256", **checked(sanitized, spool))
    assert list(spool.iterdir()) == []


def test_a_program_in_one_place_and_one_in_any_are_seen_alike(programs: Programs, tmp_path: Path) -> None:
    # GIVEN one that is not loaded to an address of the system's choice
    made = compiled_inside(tmp_path / "fixed", "-no-pie")
    (tmp_path / "spool").mkdir()
    trace = recorded(
        dataclasses.replace(programs, decode=made), tmp_path / "spool", str(programs.model), *PROMPT
    )
    assert len(of_kind(trace, "forward")) == 15
