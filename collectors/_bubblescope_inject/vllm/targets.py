"""Where in vLLM the things that are recorded can be seen; seen to fit 0.26 to 0.32.

Several candidates stand for one thing where versions or model runners (V1, V2) differ. Up to 0.16 stages
received and sent in functions that return when it is done; later ones have these, too, and go round them.
"""

from __future__ import annotations

from ..hooks import Hook, after, around, around_context, before
from . import requests, scheduling, work

_SCHEDULER = "vllm.v1.core.sched.scheduler"
_CORE = "vllm.v1.engine.core"
_OUTPUT = "vllm.v1.engine.output_processor"
_GROUPS = "vllm.distributed.parallel_state"
_WORKER = "vllm.v1.worker.gpu_worker"
_V1 = "vllm.v1.worker.gpu_model_runner"
_V2 = "vllm.v1.worker.gpu.model_runner"
_V2_GRAPHS = "vllm.v1.worker.gpu.cudagraph_utils"
_V2_TOKENS = "vllm.v1.worker.gpu.pp_utils"

#: What a recording lacks without the hook of this name; of the other hooks it does well without.
ESSENTIAL = {
    "arrival": "when requests arrived, and so all times to first token",
    "outputs": "when requests got their first token and ended",
    "schedule": "scheduler steps, and with them all work of the stages",
    "step": "all work of the stages",
    "receive": "how long stages waited for activations",
    "receive done": "when activations had arrived",
    "forward": "the compute of the stages",
    "send": "how long stages were busy sending",
    "sample": "sampling",
}

HOOKS = (
    Hook("arrival", _OUTPUT, ("OutputProcessor.add_request",), before(requests.arrived)),
    Hook("outputs", _OUTPUT, ("OutputProcessor.process_outputs",), before(requests.answered)),
    Hook("aborts", _OUTPUT, ("OutputProcessor.abort_requests",), after(requests.aborted)),
    Hook("schedule", _SCHEDULER, ("Scheduler.schedule",), around(scheduling.schedule)),
    Hook("queue", _CORE, ("EngineCore.step_with_batch_queue",), before(scheduling.queue_size)),
    Hook("step", _WORKER, ("Worker.execute_model",), before(work.step)),
    Hook("after step", _WORKER, ("Worker.sample_tokens",), after(work.step_done)),
    Hook("receive done", _WORKER, ("AsyncIntermediateTensors.wait_for_comm",), after(work.received)),
    Hook("run", _V1, ("GPUModelRunner.execute_model",), before(work.sends_done)),
    Hook("run", _V2, ("GPUModelRunner.execute_model",), before(work.sends_done)),
    Hook("receive", _GROUPS, ("GroupCoordinator.irecv_tensor_dict",), before(work.receive)),
    Hook("send", _GROUPS, ("GroupCoordinator.isend_tensor_dict",), before(work.send)),
    Hook(
        "receive", _GROUPS, ("GroupCoordinator.recv_tensor_dict",), around(work.receive_at_once),
        unless="GroupCoordinator.irecv_tensor_dict", also="receive done",
    ),
    Hook(
        "send", _GROUPS, ("GroupCoordinator.send_tensor_dict",), around(work.send_at_once),
        unless="GroupCoordinator.isend_tensor_dict",
    ),
    Hook("forward", _V1, ("GPUModelRunner._model_forward",), around(work.forward)),
    Hook("forward", _V2, ("set_forward_context",), around_context(work.forward)),
    Hook("graph", _V2_GRAPHS, ("ModelCudaGraphManager.run_fullgraph",), around(work.forward)),
    Hook("sample", _V1, ("GPUModelRunner._sample",), around(work.sample)),
    Hook("sample", _V2, ("GPUModelRunner.sample",), around(work.sample)),
    Hook("tokens in", _V2_TOKENS, ("PPHandler.receive",), around(work.receive_tokens)),
    Hook("tokens out", _V2_TOKENS, ("PPHandler.broadcast",), around(work.send_tokens)),
)  # fmt: skip
