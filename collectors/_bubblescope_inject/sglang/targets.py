"""Where in SGLang the things that are recorded can be seen; 0.5.7 to 0.5.23 have them."""

from __future__ import annotations

from ..hooks import Hook, around, before
from . import requests, work

_SCHEDULER = "sglang.srt.managers.scheduler"
_LOOP = "sglang.srt.managers.scheduler_pp_mixin"
_GROUPS = "sglang.srt.distributed.parallel_state"
_RUNNER = "sglang.srt.model_executor.model_runner"
_FRONT_END = "sglang.srt.managers.tokenizer_manager"

#: What a recording lacks without the hook of this name; of the other hooks it does well without.
ESSENTIAL = {
    "arrival": "when requests arrived, and so all times to first token",
    "outputs": "when requests got their first token and ended",
    "schedule": "batches, and with them all work of the stages",
    "await": "how long stages waited for activations",
    "receive": "how long stages waited for their input",
    "forward": "the compute of the stages",
    "send": "how long stages were busy sending",
    "send done": "when what was sent had arrived",
    "sample": "sampling",
}

HOOKS = (
    Hook("arrival", _FRONT_END, ("TokenizerManager._send_one_request",), before(requests.arrived)),
    Hook("arrivals", _FRONT_END, ("TokenizerManager._send_batch_request",), before(requests.arrived)),
    Hook("outputs", _FRONT_END, ("TokenizerManager._handle_batch_output",), before(requests.answered)),
    Hook("aborts", _FRONT_END, ("TokenizerManager._handle_abort_req",), before(requests.aborted)),
    Hook("schedule", _SCHEDULER, ("Scheduler.get_next_batch_to_run",), around(work.schedule)),
    Hook("await", _LOOP, ("SchedulerPPMixin._pp_recv_proxy_tensors",), before(work.await_activations)),
    Hook(
        "exchange",
        _LOOP,
        ("SchedulerPPMixin._pp_send_recv_and_preprocess_output_tensors",),
        before(work.exchange_tokens),
    ),
    Hook(
        "await tokens", _LOOP, ("SchedulerPPMixin._pp_recv_dict_from_prev_stage",), before(work.await_tokens)
    ),
    Hook("receive", _GROUPS, ("GroupCoordinator.recv_tensor_dict",), around(work.receive)),
    Hook("send", _GROUPS, ("GroupCoordinator.send_tensor_dict",), around(work.send)),
    Hook("send done", _LOOP, ("SchedulerPPMixin._pp_commit_comm_work",), around(work.wait_for_sends)),
    Hook("forward", _RUNNER, ("ModelRunner.forward",), around(work.forward)),
    Hook("sample", _RUNNER, ("ModelRunner.sample",), around(work.sample)),
)
