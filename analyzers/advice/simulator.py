"""Play the recorded prefill again under a split: when each stage begins and ends each microbatch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bubblescope.analyzers.advice.cost import Floats
from bubblescope.analyzers.advice.schedule import Schedule


@dataclass(frozen=True)
class Simulation:
    """begin_ns, end_ns: (S, M), since the begin of each stretch.

    makespan_ns: (P,), from a prompt's first begin on the first stage to its last end on the last.
    served_ns: (P,), the same from its arrival: with the time it queued.
    """

    begin_ns: Floats
    end_ns: Floats
    makespan_ns: Floats
    served_ns: Floats


def simulate(schedule: Schedule, times_ns: Floats) -> Simulation:
    """Play the schedule with what each microbatch takes on each stage: (S, M).

    A microbatch begins once its stage is free and its input has arrived; on the first stage once its
    prompt is there and no more than the limit are in flight; and, where stages wait for that, once the
    next stage has taken what this one made before. Stages run them in the same order.
    """
    stages, count = times_ns.shape
    durations = (times_ns + schedule.hiccup_ns).T.tolist()
    pauses, release, opens = schedule.pause_ns.T.tolist(), schedule.release.tolist(), schedule.opens.tolist()
    launch, transfer = schedule.launch_ns.tolist(), schedule.transfer_ns.tolist()
    handover = schedule.handover_ns.tolist()
    begins: list[list[float]] = []
    ends: list[list[float]] = []
    opened = 0
    for column in range(count):
        if opens[column]:
            opened = column
        before = ends[-1] if column > opened else None
        ready = release[column]
        if schedule.in_flight is not None and column - schedule.in_flight >= opened:
            ready = max(ready, ends[column - schedule.in_flight][-1] + transfer[0])
        begin: list[float] = []
        end: list[float] = []
        for stage in range(stages):
            if stage:
                ready = end[-1] + transfer[stage]
            if before is not None:
                ready = max(ready, before[stage] + launch[stage])
            if column - 2 >= opened and stage + 1 < stages:
                ready = max(ready, ends[column - 2][stage + 1] + handover[stage])
            begin.append(ready + pauses[column][stage])
            end.append(begin[-1] + durations[column][stage])
        begins.append(begin)
        ends.append(end)
    begin_ns, end_ns = np.array(begins).T, np.array(ends).T
    done = end_ns[-1, schedule.last]
    return Simulation(
        begin_ns=begin_ns,
        end_ns=end_ns,
        makespan_ns=done - begin_ns[0, schedule.first],
        served_ns=done - schedule.arrival,
    )
