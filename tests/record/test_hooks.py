"""A recording says which of its engine's functions it did not find, and what it lacks for it."""

from __future__ import annotations

from bubblescope.collectors._bubblescope_inject.sglang import targets as sglang
from bubblescope.collectors._bubblescope_inject.vllm.targets import ESSENTIAL, HOOKS
from bubblescope.record.hooks import missing_hooks

COMPLETE = {"engine": "vllm", "engine_version": "0.40.0", **{f"hook:{hook.name}": "found" for hook in HOOKS}}


def test_nothing_is_said_where_all_hooks_were_set() -> None:
    assert list(missing_hooks(COMPLETE)) == []


def test_each_essential_hook_that_is_missing_is_named_with_what_it_was_for() -> None:
    facts = {name: value for name, value in COMPLETE.items() if name != "hook:schedule"}
    (lost,) = missing_hooks(facts)
    assert lost.why == (
        "vLLM 0.40.0 has no vllm.v1.core.sched.scheduler:Scheduler.schedule; "
        "so this does not show scheduler steps, and with them all work of the stages"
    )
    assert not lost.damage


def test_all_candidates_of_a_hook_are_named() -> None:
    facts = {name: value for name, value in COMPLETE.items() if name != "hook:forward"}
    (lost,) = missing_hooks(facts)
    assert "gpu_model_runner:GPUModelRunner._model_forward, " in lost.why
    assert "gpu.model_runner:set_forward_context" in lost.why


def test_each_engine_has_hooks_of_its_own() -> None:
    found = {f"hook:{hook.name}": "found" for hook in sglang.HOOKS if hook.name != "send"}
    (lost,) = missing_hooks({"engine": "sglang", "engine_version": "0.6.0", **found})
    assert lost.why == (
        "SGLang 0.6.0 has no sglang.srt.distributed.parallel_state:GroupCoordinator.send_tensor_dict; "
        "so this does not show how long stages were busy sending"
    )


def test_recordings_of_other_engines_lack_no_hooks() -> None:
    assert list(missing_hooks({"engine": "other", "hook:other": "found"})) == []
    assert list(missing_hooks({"engine": "vllm"})) == []


def test_what_is_essential_is_looked_for() -> None:
    assert ESSENTIAL.keys() <= {hook.name for hook in HOOKS}
    assert sglang.ESSENTIAL.keys() <= {hook.name for hook in sglang.HOOKS}
