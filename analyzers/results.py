"""What the analyzers find, as data: the seam between analysis and report.

Every figure is int64 nanoseconds unless its name says otherwise. Stage and device numbers are
those of the trace: a device's number is its position in `Run.devices`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd

from bubblescope.trace.frames import Schema, empty
from bubblescope.trace.model import Lost, Trace

#: In the order in which they are decided: the first that holds wins, "host" is the rest.
STATES = ("compute", "transfer", "idle", "fill", "drain", "starved", "blocked", "host")
#: "state": the host saved or restored the state of sequences (their KV cache).
CAUSES = ("compute", "transfer", "host", "state", "token", "tp_skew", "follow_on", "unknown")
WAITING_STATES = ("starved", "blocked", "host")

#: One row per stretch of one state. Per device the rows are in time order, disjoint, and cover
#: the window exactly.
TIMELINE = Schema(
    "timeline",
    {"device": "int32", "state": STATES, "begin_ns": "time", "end_ns": "time"},
    intervals=True,
)

#: Where the waiting of each stage comes from. `culprit_stage` is -1 where it is not known.
#: For each waiting stage the rows sum to its starved + blocked + host time.
BLAME = Schema(
    "blame",
    {"waiting_stage": "int32", "culprit_stage": "int32", "cause": CAUSES, "ns": "int64"},
)

#: Who was to blame when: one row per stretch of a stage's waiting that has one culprit. BLAME is its
#: sum.
CULPRITS = Schema(
    "culprits",
    {
        "waiting_stage": "int32",
        "culprit_stage": "int32",
        "cause": CAUSES,
        "begin_ns": "time",
        "end_ns": "time",
    },
    intervals=True,
)

#: The stretches of the window in which a request was open. `inferred`: from quiet devices.
BURSTS = Schema(
    "bursts",
    {"begin_ns": "time", "end_ns": "time", "inferred": "bool"},
    intervals=True,
)

#: `stages` stages computed at once for `ns` of the window.
CONCURRENCY = Schema("concurrency", {"stages": "int32", "ns": "int64"})

#: One row per layer of a stage, where layers are recorded one by one (`part` "layer") or the attention of
#: each is ("attention"): over the prefill `microbatches` of the window their sum and their median.
LAYER_TIMES = Schema(
    "layer_times",
    {
        "stage": "int32",
        "layer": "int32",
        "part": ("layer", "attention"),
        "microbatches": "int64",
        "ns": "int64",
        "median_ns": "int64",
    },
)

#: What each stage's leading device ran in the window, by what it does: `kernels` of them, `ns` in all (of
#: communication with its waiting). `layer_ns`: of those within the forwards of prefill the mean per layer and
#: microbatch, -1 where layers or forwards are not known.
KERNEL_TIMES = Schema(
    "kernel_times",
    {
        "stage": "int32",
        "part": ("attention", "matrix", "communication", "other", "copy"),
        "kernels": "int64",
        "ns": "int64",
        "layer_ns": "int64",
    },
)


@dataclass(frozen=True)
class Options:
    """What the user may set.

    partition: layers per stage, where the recording does not tell or is wrong.
    window_ns: begin and end on the trace's clock.
    idle_gap_ns: a quiet time longer than this is idle where no request table exists.
    """

    partition: tuple[int, ...] | None = None
    window_ns: tuple[int, int] | None = None
    idle_gap_ns: int = 10_000_000


@dataclass(frozen=True)
class DeviceStates:
    """How one device spent the window; `states_ns` has every state and sums to the window.

    Empty `states_ns`: the recording shows no work of this device, so nothing can be said.
    """

    device: int
    stage: int | None
    states_ns: Mapping[str, int]


@dataclass(frozen=True)
class Stage:
    """One stage of the pipeline.

    devices: numbers of its devices; the first is the one with the most compute, whose states
        are the stage's.
    layers: how many it holds; None where neither recording, flag nor kernels tell.
    bubble_ratio: 1 - compute / (window - idle); None where the window is all idle.
    """

    stage: int
    devices: tuple[int, ...]
    layers: int | None
    bubble_ratio: float | None
    states_ns: Mapping[str, int]


@dataclass(frozen=True)
class RequestBreakdown:
    """One measured request and where its time to first token went.

    breakdown_ns: keys "queue", "host", "transfer", "bubble", "outside" and "compute_stage_N", and "state"
        where states of sequences were copied; they sum to ttft_ns. Empty where it cannot be told.
    """

    request: str
    arrival_ns: int
    ttft_ns: int | None
    prompt_tokens: int
    breakdown_ns: Mapping[str, int]


@dataclass(frozen=True)
class Straggler:
    """Something slower than its peers.

    kind: "stage" (per layer, against peers on the same type of device), "microbatch" (against
        its stage's own trend), "device" (its clock fell), "link" (against its twins).
    excess_ns: how much longer it took than its peers would have, in all.
    """

    kind: str
    stage: int | None
    microbatch: int | None
    excess_ns: int
    text: str


@dataclass(frozen=True)
class Finding:
    """Something worth knowing, with its size and, where there is one, the flag that cures it.

    ns: what it costs a prompt; of "launch-bound" what it costs in the whole window.
    """

    id: str
    ns: int
    stage: int | None
    text: str
    flag: str | None = None
    predicted_gain: float | None = None


@dataclass(frozen=True)
class Recommendation:
    """Advice on the split of the layers over the stages.

    partition: layers per stage; None where there is no advice, and `reason` says why.
    makespan_ns: mean time of one prompt's prefill on the devices, from its first compute on the first
        stage to its last on the last. ttft_ns: mean time to first token of the same prompts.
    predicted_*: the same under the advice; None where unknown. predicted_range_ns: of the makespan,
        what uncertain costs per layer allow for.
    error: by what share the simulator misses the recorded makespans; None where it could not try.
    words: what to give the engine. remarks: what was left out or taken for granted.
    uncertain: another split may well be faster, and too little was recorded to tell.
    """

    partition: tuple[int, ...] | None
    reason: str
    makespan_ns: int | None = None
    predicted_makespan_ns: int | None = None
    predicted_range_ns: tuple[int, int] | None = None
    ttft_ns: int | None = None
    predicted_ttft_ns: int | None = None
    error: float | None = None
    words: str | None = None
    remarks: tuple[str, ...] = ()
    uncertain: bool = False


@dataclass(frozen=True)
class Analysis:
    """Everything that was found in one recording.

    window_source: "recording", "flag" or "device work".
    layers_from: "recording", "flag", "attention" or None.
    pipeline: False where the recording is none; then `stages` and `blame` are empty.
    spans: the stage spans of the recording, or those rebuilt from its slices.
    lost: what the recording lacks, with what the analysis could not tell.
    """

    trace: Trace
    window_ns: tuple[int, int]
    window_source: str
    pipeline: bool
    layers_from: str | None
    timeline: pd.DataFrame
    devices: tuple[DeviceStates, ...]
    stages: tuple[Stage, ...]
    bubble_ratio: float | None
    ideal_bubble_ratio: float | None
    bursts: pd.DataFrame
    blame: pd.DataFrame
    concurrency: pd.DataFrame
    spans: pd.DataFrame
    culprits: pd.DataFrame = field(default_factory=lambda: empty(CULPRITS))
    layer_times: pd.DataFrame = field(default_factory=lambda: empty(LAYER_TIMES))
    kernel_times: pd.DataFrame = field(default_factory=lambda: empty(KERNEL_TIMES))
    requests: tuple[RequestBreakdown, ...] = ()
    stragglers: tuple[Straggler, ...] = ()
    findings: tuple[Finding, ...] = ()
    recommendation: Recommendation = Recommendation(None, "no advice was asked for")
    lost: tuple[Lost, ...] = field(default=())
