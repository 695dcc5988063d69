"""How late a prompt must be done at the earliest, for splits of which only the first stages are known.

Every prompt is a lane: all microbatches from when the pipeline was last empty to its own last one.
When one ends on a stage is a longest path: it enters the stage at some microbatch and stays for all
up to this one. Summed up along the lane, that is a running maximum, for many splits at once.
"""

from __future__ import annotations

import numpy as np

from bubblescope.analyzers.advice.cost import CostModel, Floats
from bubblescope.analyzers.advice.occupancy import Longs
from bubblescope.analyzers.advice.schedule import Schedule


def lane_cells(schedule: Schedule) -> int:
    """P × M: what the lanes of a schedule come to."""
    return len(schedule.first) * int((schedule.last - schedule.opened() + 1).max())


class Lanes:
    """P lanes of up to M microbatches on S stages; a shorter lane is filled up at its end.

    release: (P, M), when each may begin on the first stage. Of the limit on what is in flight only the
    least that it costs is counted, of waiting for a later stage nothing: all times here are at most
    those of the simulator.
    """

    def __init__(self, model: CostModel, schedule: Schedule, layers: int) -> None:
        opened = schedule.opened()
        length = schedule.last - opened + 1
        place = np.arange(int(length.max()))
        there = place < length[:, np.newaxis]
        column = np.minimum(opened[:, np.newaxis] + place, schedule.last[:, np.newaxis])
        fixed = model.ends_ns + schedule.pause_ns + schedule.hiccup_ns + schedule.launch_ns[:, np.newaxis]
        self._launch, self._transfer = schedule.launch_ns, schedule.transfer_ns
        self._arrival = schedule.arrival
        self._step = np.where(there, fixed[:, column], 0)
        self._step_per_layer = np.where(there, model.per_layer_ns[:, column], 0)
        self._sum = self._step.cumsum(axis=2)
        self._sum_per_layer = self._step_per_layer.cumsum(axis=2)
        self.release = np.where(there, _release(model, schedule, layers)[column], -np.inf)
        self.nothing_left = np.where(place == length[:, np.newaxis] - 1, 0, -np.inf)

    def _steps(self, stage: int, layers: Longs) -> tuple[Floats, Floats]:
        """(N, P, M): time per microbatch with the launch before it, and its sum along the lane."""
        each = layers[:, np.newaxis, np.newaxis]
        return (
            self._step[stage] + each * self._step_per_layer[stage],
            self._sum[stage] + each * self._sum_per_layer[stage],
        )

    def ends(self, stage: int, layers: Longs, ready: Floats) -> Floats:
        """(N, P, M): ends on a stage with each of N numbers of layers, from when the input was `ready`."""
        step, total = self._steps(stage, layers)
        entered = ready - total + step - self._launch[stage]
        return np.asarray(total + np.maximum.accumulate(entered, axis=2))

    def ready(self, stage: int, ends: Floats) -> Floats:
        """When what ended on a stage can begin on the next."""
        return np.asarray(ends + self._transfer[stage + 1])

    def tail(self, stage: int, layers: Longs, after: Floats) -> Floats:
        """(N, P, M): least time from being ready for a stage to the prompt's end.

        layers: (N,), of the stage. after: (N, P, M), the same from the end on the stage.
        """
        step, total = self._steps(stage, layers)
        longest = np.maximum.accumulate((total + after)[:, :, ::-1], axis=2)[:, :, ::-1]
        return np.asarray(longest - total + step - self._launch[stage])

    def served(self, ends: Floats, after: Floats) -> Floats:
        """(N,): mean over prompts of the time from arrival to end that follows from both."""
        return np.asarray(((ends + after).max(axis=2) - self._arrival).mean(axis=1))

    def alone(self, stage: int, layers: Longs) -> Floats:
        """(N,): the mean that one stage's own work leads to."""
        total = self._steps(stage, layers)[1][:, :, -1]
        return np.asarray((total - self._launch[stage] - self._arrival).mean(axis=1))


def _release(model: CostModel, schedule: Schedule, layers: int) -> Floats:
    """(M,): earliest begins on the first stage, whatever the split of so many layers.

    Under a limit a microbatch waits until another has passed all stages. That takes no less than all
    layers on the fastest stage.
    """
    release = schedule.release.copy()
    if schedule.in_flight is None:
        return release
    fixed = (model.ends_ns + schedule.pause_ns + schedule.hiccup_ns).sum(axis=0) + schedule.transfer_ns.sum()
    passed = fixed + layers * model.per_layer_ns.min(axis=0)
    opened = 0
    for column, opens in enumerate(schedule.opens.tolist()):
        opened = column if opens else opened
        before = column - schedule.in_flight
        if before >= opened:
            release[column] = max(release[column], release[before] + passed[before])
    return release
