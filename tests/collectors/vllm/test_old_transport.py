"""Receiving and sending as vLLM did up to 0.16, shown on a stand-in: no such version runs here.

The stand-in has the modules, classes and functions of that version that matter, and no model.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bubblescope.collectors._bubblescope_inject import layout
from tests.collectors.programs import recorded

#: Receives for 20 ms and sends for 10.
GROUPS = """
import time

class GroupCoordinator:
    def __init__(self, name, rank, size):
        self.unique_name, self.rank_in_group, self.world_size = name, rank, size

    def recv_tensor_dict(self, src=None, all_gather_group=None, all_gather_tensors=None):
        time.sleep(0.02)
        return {"hidden_states": Tensor(), "count": 3}

    def send_tensor_dict(self, tensor_dict, dst=None, all_gather_group=None, all_gather_tensors=None):
        time.sleep(0.01)

class Tensor:
    def numel(self): return 1000
    def element_size(self): return 2

PIPELINE, TENSOR = GroupCoordinator("pp:0", 1, 3), GroupCoordinator("tp:0", 0, 1)

def get_pp_group():
    return PIPELINE
"""
#: What later versions have besides; their old functions go round them.
LATER = """
def irecv_tensor_dict(self, *args): return GroupCoordinator.recv_tensor_dict(self, *args)
GroupCoordinator.irecv_tensor_dict = irecv_tensor_dict
GroupCoordinator.isend_tensor_dict = GroupCoordinator.send_tensor_dict
"""
WORKER = """
from vllm.distributed.parallel_state import get_pp_group, TENSOR

class Worker:
    def execute_model(self, scheduler_output):
        TENSOR.recv_tensor_dict()
        received = get_pp_group().recv_tensor_dict()
        get_pp_group().send_tensor_dict(received)

    def sample_tokens(self, grammar_output):
        pass
"""
PROGRAM = """
from types import SimpleNamespace as Some
sys.path.insert(0, os.environ["STAND_IN"])
sys.modules["torch"] = Some()
from _bubblescope_inject import vllm
vllm.register()
from vllm.v1.worker.gpu_worker import Worker

worker = Worker()
worker.rank = worker.local_rank = 1
worker.device = Some(type="cpu")
worker.vllm_config = Some(compilation_config=Some(mode=0))
worker.model_runner = Some(model=Some(modules=lambda: []))
step = Some(_bubblescope_step=(5, "prefill", 256, 512))
worker.execute_model(step)
worker.sample_tokens(None)
"""


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    folder = tmp_path / "stand_in"
    for package in ("vllm", "vllm/distributed", "vllm/v1", "vllm/v1/worker"):
        (folder / package).mkdir(parents=True)
        (folder / package / "__init__.py").touch()
    (folder / "vllm" / "distributed" / "parallel_state.py").write_text(GROUPS)
    (folder / "vllm" / "v1" / "worker" / "gpu_worker.py").write_text(WORKER)
    return folder


def test_a_stage_in_the_middle_receives_and_sends(tmp_path: Path, stand_in: Path) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    process = recorded(PROGRAM, spool, STAND_IN=str(stand_in))
    rows = process.spans[["kind", "step", "peer", "bytes", "tokens", "prefix"]].tolist()
    kinds = [layout.KINDS.index(kind) for kind in ("recv", "send")]
    assert rows == [(kinds[0], 5, 0, 2000, 256, 512), (kinds[1], 5, 2, 2000, 256, 512)]
    waited = (process.spans["end_ns"] - process.spans["begin_ns"]).tolist()
    assert waited[0] >= 20_000_000 and waited[1] >= 10_000_000
    assert {"hook:receive", "hook:receive done", "hook:send"} <= process.facts.keys()


def test_it_is_left_alone_where_there_is_the_later_way(tmp_path: Path, stand_in: Path) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    groups = stand_in / "vllm" / "distributed" / "parallel_state.py"
    groups.write_text(GROUPS + LATER)
    process = recorded(PROGRAM, spool, STAND_IN=str(stand_in))
    assert len(process.spans) == 0
    assert process.facts["hook:receive"][1].endswith('GroupCoordinator.irecv_tensor_dict"')
