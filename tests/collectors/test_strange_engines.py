"""Whatever an engine's objects turn out to be, its hooked functions do and return what they did before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.collectors.programs import processes_of, run_program

HERE = Path(__file__).parent
SIGNATURES = {
    engine: json.loads((HERE.parent / "engines" / engine / "signatures.json").read_text())
    for engine in ("vllm", "sglang")
}
VERSIONS = [
    (engine, version)
    for engine, targets in SIGNATURES.items()
    for version in next(iter(targets.values()))
]  # fmt: skip

#: Has a stage known to the collector, as it is on a device of CUDA, then calls all that is hooked.
PROGRAM = """
import importlib, json, random, warnings
from types import ModuleType, SimpleNamespace as Some
sys.path.insert(0, os.environ["HERE"])
from strange_engine import Engine, Once, Strange, value

chosen = random.Random(int(os.environ["SEED"]))
name = os.environ["ENGINE"]
targets = json.loads(os.environ["TARGETS"])
engine = Engine(targets)

works_badly = False

class Event:
    def __init__(self, **_): pass
    def record(self, stream): return self.raises()
    def query(self): return self.raises() or True
    def elapsed_time(self, other):
        return self.raises() or (chosen.choice([0.5, None, 1e300, float("nan")]) if works_badly else 0.5)
    def raises(self):
        if works_badly and chosen.random() < 0.05:
            raise RuntimeError("CUDA error")

torch = Some(cuda=Some(
    Stream=lambda device: None, Event=Event, set_device=len, current_stream=lambda: None,
    current_device=lambda: 0,
    get_device_properties=lambda device: Some(name="NVIDIA H200", major=9, minor=0, total_memory=1),
), device=lambda *words: Some(type="cuda", index=0))
sys.modules["torch"] = torch
inner = Some(start_layer=0, end_layer=2, layers=[Some(forward=len), Some(forward=len)])
model = Some(modules=lambda: [inner], compute_logits=len)
group = Some(rank_in_group=0, rank=0, local_rank=0, world_size=2)

collector = importlib.import_module("_bubblescope_inject." + name)
work = importlib.import_module("_bubblescope_inject." + name + ".work")
collector.register()

def known():
    # WHEN the collector is shown what it knows, once
    work._tried = False
    engine.answer = None
    if name == "vllm":
        sys.modules["vllm.distributed.parallel_state"].get_pp_group = lambda: group
        worker = Some(rank=0, local_rank=0, device=torch.device(), vllm_config=Some(
            compilation_config=Some(mode=0, static_forward_context={})), model_runner=Some(model=model))
        engine.call("vllm.v1.worker.gpu_worker:Worker.execute_model", worker,
                    Some(_bubblescope_step=(1, "prefill", 8, 0)))
        return work._worker
    scheduler = Some(tp_worker=Some(model_runner=Some(device="cuda", model=model)), pp_group=group)
    mode = Some(is_idle=lambda: False, is_extend=lambda: True)
    engine.answer = Some(forward_mode=mode, extend_lens=[8], prefix_lens=[0],
                         reqs=[Some(origin_input_ids=[1] * 8)])
    engine.call("sglang.srt.managers.scheduler:Scheduler.get_next_batch_to_run", scheduler)
    return work._stage

def called():
    target = chosen.choice(engine.targets())
    owner = chosen.choice([Strange(chosen), Some(unique_name="pp:0"), value(chosen)])
    given = [value(chosen) for _ in range(chosen.randrange(5))]
    once = Once()
    if chosen.random() < 0.3:
        given.insert(0, once)
    engine.answer = chosen.choice([value(chosen), value(chosen), once, ZeroDivisionError("its own")])
    try:
        result = engine.call(target, owner, *given)
        assert result is engine.answer, target
    except ZeroDivisionError as error:
        assert error is engine.answer, target
    assert all(a is b for a, b in zip(engine.given, [owner, *given], strict=True)), target
    assert once.taken == 0, target

for _ in range(CALLS):
    called()
stage = known()
assert stage is not None
works_badly = True
for _ in range(CALLS):
    stage.step = chosen.choice([(1, "prefill", 8, 0), None, value(chosen)])
    called()
time.sleep(0.1)
# THEN no more than the thread that reads the device's events was left behind
assert threading.active_count() <= 3, threading.enumerate()
recorder.fact("over", True)
"""


@pytest.mark.parametrize(("engine", "version"), VERSIONS)
def test_no_hook_raises_into_an_engine_or_changes_what_it_gets(
    engine: str, version: str, tmp_path: Path
) -> None:
    targets = {target: known[version] for target, known in SIGNATURES[engine].items()}
    done = run_program(
        PROGRAM.replace("CALLS", "400"), tmp_path, HERE=HERE, ENGINE=engine, TARGETS=json.dumps(targets),
        SEED=7,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), done.stderr[-3000:]
    (process,) = processes_of(tmp_path)
    assert process.facts["over"][1] == "true"
    # What failed once is not tried again: nothing piles up.
    assert len(process.stages) <= 3
    assert process.lost["refused"] > 0
