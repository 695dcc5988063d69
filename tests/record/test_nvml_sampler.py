"""The cards are sampled beside the engine, and what is not there is said once."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from bubblescope.collectors._bubblescope_inject.writer import Writer
from bubblescope.record.assemble import traces_of
from bubblescope.record.nvml_sampler import Sampler
from bubblescope.record.spool import Process, read_spool
from bubblescope.trace.model import Trace
from bubblescope.trace.read import read_trace
from tests.record.commands import SHORT, bubblescope, python, wait_until
from tests.record.fake_nvml import GIB, NAMES, POWER_CAP, UUIDS, FakeDriver


def sampled(driver: FakeDriver, folder: Path, samples: int = 3, hz: float = 100) -> Process:
    """What the sampler wrote until every card was asked so often."""
    sampler = Sampler(hz)
    sampler.start(Writer(str(folder), 1 << 20, None))
    wait_until(lambda: driver.asked >= 2 * samples * len(driver.names))
    sampler.stop()
    processes, _ = read_spool(str(folder))
    return next(process for process in processes if len(process.cards))


def test_every_card_is_asked_again_and_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    slots = sampled(FakeDriver().install(monkeypatch), tmp_path).cards
    assert len(slots) >= 6
    first, second = slots[slots["card"] == 0][:2]
    assert (first["sm_clock"], first["memory_clock"], first["power"]) == (2400, 14001, 400_500)
    assert (first["temperature"], first["reasons"], first["memory"]) == (71, POWER_CAP, GIB)
    assert (first["utilization"], slots[slots["card"] == 1][0]["utilization"]) == (98, -1)
    assert first["time_ns"] < second["time_ns"]


def test_pcie_is_asked_of_one_card_at_a_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    slots = sampled(FakeDriver().install(monkeypatch), tmp_path).cards
    assert slots["card"][:4].tolist() == [0, 1, 0, 1]
    assert slots["pcie_tx"][:4].tolist() == [1000, -1, -1, 1000]
    assert slots["pcie_rx"][:4].tolist() == [1001, -1, -1, 1001]


def test_cards_and_their_links_are_facts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,0")
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
    told = json.loads(sampled(FakeDriver().install(monkeypatch), tmp_path).facts["cards"][1])
    assert (told["hz"], told["driver"], told["visible"], told["order"]) == (100, "580.95", "1,0", None)
    assert told["cards"][1] == {
        "name": NAMES[1], "uuid": UUIDS[1], "memory_bytes": 32 * GIB, "power_limit_w": 575.0,
        "sm_clock_limit_mhz": 3090, "pcie_generation": 5, "pcie_width": 8, "nvlinks": 2,
    }  # fmt: skip
    assert told["links"] == [{"cards": [0, 1], "path": "PHB", "p2p": True, "nvlink": False}]


def test_cards_without_nvlink_have_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    process = sampled(FakeDriver(nvlink=False).install(monkeypatch), tmp_path)
    assert set(process.cards["nvlink_tx"].tolist()) == {-1}
    assert json.loads(process.facts["cards"][1])["cards"][0]["nvlinks"] == 0


def test_a_sampler_that_was_never_started_can_be_stopped() -> None:
    Sampler(10).stop()


def recorded(folder: Path, hz: float, code: str = SHORT) -> Trace:
    path = folder / "x.json"
    done = bubblescope("record", "-o", path, "--nvml-hz", str(hz), "--", *python(code), cwd=folder)
    assert done.returncode == 0
    return read_trace(path)


def test_where_there_is_no_driver_that_is_a_fact(tmp_path: Path) -> None:
    pytest.importorskip("pynvml")
    trace = recorded(tmp_path, 10)
    if "why_not" not in trace.run.facts["cards"]:
        pytest.skip("there is a driver here")
    assert len(trace.counters) == 0
    # An engine on CPUs has nothing to miss.
    assert trace.run.lost == ()


def test_of_another_engine_it_is_said_once(tmp_path: Path) -> None:
    trace = recorded(tmp_path, 10, SHORT.replace('"CPU"', '"AMD Instinct MI300X"'))
    if "why_not" not in trace.run.facts["cards"]:
        pytest.skip("there is a driver here")
    (lost,) = trace.run.lost
    assert lost.what == "clocks, power and temperature"
    assert lost.why.startswith("no card could be asked for them (NVML: ") and lost.why.count("NVML") == 1
    assert not lost.damage


def test_none_are_sampled_where_that_is_asked_for(tmp_path: Path) -> None:
    assert "cards" not in recorded(tmp_path, 0).run.facts


def test_samples_reach_the_trace_of_the_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # GIVEN an engine whose second stage runs on the first card, as its UUID tells
    engine = Writer(str(tmp_path), 1 << 20, None)
    for stage in (0, 1):
        engine.add_stage((-1, stage, stage, stage, 0, 4), NAMES[1 - stage], "")
        engine.add_fact(f"uuid:{stage}:{stage}", json.dumps(UUIDS[1 - stage].removeprefix("GPU-")))
    del engine
    sampled(FakeDriver().install(monkeypatch), tmp_path, samples=2)
    (trace,) = traces_of(str(tmp_path))
    used = trace.counters[trace.counters["name"] == "memory_used_bytes"].groupby("device")["value"].first()
    assert used.to_dict() == {0: 2 * GIB, 1: 1 * GIB}


def test_where_no_thread_is_allowed_it_says_so_and_the_recording_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    sampler = Sampler(10)
    sampler.start(Writer(str(tmp_path), 1 << 20, None))
    sampler.stop()
    ((process,), _) = read_spool(str(tmp_path))
    assert json.loads(process.facts["cards"][1]) == {"why_not": "RuntimeError: can't start new thread"}


def test_a_pynvml_of_another_make_does_not_keep_the_command_from_running(tmp_path: Path) -> None:
    # Python looks into the folder that it is started in first.
    (tmp_path / "pynvml.py").write_text("# nothing of what is asked for\n")
    done = bubblescope("record", "-o", "t.json", "--", *python(SHORT), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert "bubblescope: clocks, power and temperature are not recorded: AttributeError: " in done.stderr
    assert len(read_trace(tmp_path / "t.json").spans) == 3
