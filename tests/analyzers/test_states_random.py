"""Random pipelines: every state of every nanosecond, and all blame, are the simulation's."""

from __future__ import annotations

from hypothesis import HealthCheck, assume, given, reject, settings
from hypothesis import strategies as st

from tests.pipelines.agreement import examined
from tests.pipelines.engine import Engine, Step, decode
from tests.pipelines.execution import Execution, play
from tests.pipelines.truth import UndefinedError

#: Hosts make a device wait less than IDLE_GAP, or until LATE, when all before is done.
IDLE_GAP, LATE = 200, 1200

#: Even, so that the median of two is whole.
even = st.integers(1, 12).map(lambda half: 2 * half)


@st.composite
def engines(draw: st.DrawFn, stages: int, width: int) -> Engine:
    return Engine(
        link=draw(st.tuples(*[even] * (stages - 1))),
        tensors=draw(st.integers(1, 2)),
        early=draw(st.booleans()),
        host=draw(st.just(()) | st.tuples(*[st.integers(0, 30)] * stages)),
        lockstep=draw(st.booleans()),
        # Uneven: where two ranks of a stage compute equally long it is open which one stands for it.
        skew=tuple(draw(st.permutations(range(0, 5 * width, 5)))),
        turns=draw(st.booleans()),
        allreduce=draw(st.integers(1, 8)),
        tokens=draw(st.sampled_from(["broadcast", "return"])),
        token_link=draw(even),
        copy=draw(st.sampled_from([0, 3])),
        buffers=draw(st.integers(0, 3)),
        lag=draw(st.integers(0, 2)),
        # The streams of a rank do not begin at once, else it is open which wait came first.
        stagger=1,
        holds=draw(st.booleans()),
    )


@st.composite
def prompts(draw: st.DrawFn, stages: int, at: int, decode_at: int) -> list[Step]:
    """Chunks of a prompt, then decode steps."""
    costs = st.tuples(*[st.integers(1, 40)] * stages)
    chunks = draw(st.lists(costs, min_size=1, max_size=4))
    prefill = [Step(cost, at=at, samples=number == len(chunks)) for number, cost in enumerate(chunks, 1)]
    return prefill + [decode(*cost, at=decode_at) for cost in draw(st.lists(costs, max_size=2))]


@st.composite
def executions(draw: st.DrawFn, late_decode: bool) -> Execution:
    """One prompt or two with idle time between.

    late_decode: hosts may come to decode steps long after the prompt.
    """
    stages, width = draw(st.integers(2, 4)), draw(st.sampled_from([1, 1, 2]))
    pauses = st.sampled_from([0, LATE]) if late_decode else st.just(0)
    steps = draw(prompts(stages, 0, draw(pauses)))
    if draw(st.booleans()):
        steps += draw(prompts(stages, 2 * LATE, 2 * LATE + draw(pauses)))
    return play(draw(engines(stages, width)).program(steps))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(execution=executions(late_decode=False))
def test_all_states_and_all_blame_are_exact(execution: Execution) -> None:
    try:
        examined(execution, idle_gap=IDLE_GAP)
    except UndefinedError:
        reject()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(execution=executions(late_decode=True))
def test_all_is_exact_where_phases_are_recorded(execution: Execution) -> None:
    try:
        examined(execution, idle_gap=IDLE_GAP, phases=True)
    except UndefinedError:
        reject()


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(execution=executions(late_decode=False), begin=st.integers(0, 200), length=st.integers(1, 200))
def test_a_window_cuts_without_changing_anything(execution: Execution, begin: int, length: int) -> None:
    end = min(begin + length, max(work.end for work in execution.works))
    assume(begin < end)
    try:
        examined(execution, idle_gap=IDLE_GAP, window=(begin, end))
    except UndefinedError:
        reject()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    execution=executions(late_decode=False),
    copies=st.lists(st.tuples(st.integers(0, 400), st.integers(1, 100)), min_size=1, max_size=4),
)
def test_saving_states_is_the_hosts_wherever_nobody_computes(
    execution: Execution, copies: list[tuple[int, int]]
) -> None:
    # GIVEN a request that is open all the time, for which the pipeline begins to work only after a while
    begin, end = min(work.begin for work in execution.works), max(work.end for work in execution.works)
    open_time = (begin - 150, end + 50)
    times = [(open_time[0] + at, open_time[0] + at + length) for at, length in copies]
    try:
        examined(execution, window=open_time, requests=[open_time], phases=True, copies=times)
    except UndefinedError:
        reject()
