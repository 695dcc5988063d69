"""What kinds of kernels a stage ran, per layer, and where its device waited for its own process."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from bubblescope.analyzers.analysis import analyze
from bubblescope.analyzers.kernels import launch_gaps
from bubblescope.analyzers.results import Options
from bubblescope.trace import frames
from bubblescope.trace.frames import SPANS
from bubblescope.trace.model import Device, Run, Trace
from tests.analyzers.handmade import Slice, collective, recv, send, trace_of

FLASH = "void cutlass::device_kernel<flash::FlashAttnFwdSm90<bf16>>"
GEMM = "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT"
NORM = "void vllm::rms_norm_kernel<c10::BFloat16>"
RUN = Run(devices=(Device(rank=0, stage=0), Device(rank=1, stage=1)), partition=(2, 1))


def forward(device: int, microbatch: int, begin: int, end: int, phase: str = "prefill") -> pd.DataFrame:
    row = {
        "stage": device, "device": device, "step": microbatch, "microbatch": microbatch, "kind": "forward",
        "phase": phase, "tokens": 8, "prefix": 0, "layer_begin": -1, "layer_end": -1, "peer": -1, "bytes": -1,
        "begin_ns": begin, "end_ns": end, "clock": "device",
    }  # fmt: skip
    return frames.table(SPANS, {name: [value] for name, value in row.items()})


def recording(slices: list[Slice], *spans: pd.DataFrame) -> Trace:
    return replace(trace_of(slices, RUN), spans=frames.checked(SPANS, pd.concat(spans)))


def test_kernels_are_counted_by_what_they_do_and_per_layer() -> None:
    # GIVEN stage 0 with 2 layers and 2 microbatches of prefill; a decode and a copy that are no layer's
    trace = recording(
        [
            Slice(0, 0, 40, FLASH), Slice(0, 40, 100, GEMM), Slice(0, 100, 104, NORM), send(0, 1, 50, 130),
            Slice(0, 200, 260, FLASH), Slice(0, 260, 300, GEMM), send(0, 1, 300, 330),
            Slice(0, 400, 410, GEMM), Slice(0, 410, 420, "Memcpy DtoH", category="copy"),
            recv(1, 0, 50, 130), Slice(1, 130, 160, GEMM), recv(1, 0, 300, 330), Slice(1, 330, 360, GEMM),
        ],
        forward(0, 0, 0, 104), forward(0, 1, 200, 300), forward(0, 2, 400, 420, "decode"),
        forward(1, 0, 130, 160), forward(1, 1, 330, 360),
    )  # fmt: skip
    times = analyze(trace).kernel_times
    # THEN of attention 40 + 60 over 2 layers in 2 microbatches, of matrices 60 + 40; the sends are no layer's
    assert times.to_numpy().tolist() == [
        [0, "attention", 2, 100, 25],
        [0, "communication", 2, 110, 0],
        [0, "copy", 1, 10, 0],
        [0, "matrix", 3, 110, 25],
        [0, "other", 1, 4, 1],
        [1, "communication", 2, 110, 0],
        [1, "matrix", 2, 60, 30],
    ]


def test_collectives_of_a_layer_are_its_communication() -> None:
    trace = recording(
        [
            Slice(0, 0, 40, GEMM),
            collective(0, 40, 60),
            send(0, 1, 60, 90),
            recv(1, 0, 0, 90),
            Slice(1, 90, 99),
        ],
        forward(0, 0, 0, 60),
        forward(1, 0, 90, 99),
    )
    times = analyze(trace).kernel_times.set_index(["stage", "part"])["layer_ns"]
    assert times[0, "communication"] == 10  # 20 over 2 layers


def test_only_the_window_counts() -> None:
    trace = recording(
        [Slice(0, 0, 40, GEMM), send(0, 1, 40, 50), Slice(0, 100, 130, GEMM), send(0, 1, 130, 140),
         recv(1, 0, 40, 50), Slice(1, 50, 60), recv(1, 0, 130, 140), Slice(1, 140, 150)],
        forward(0, 0, 0, 40), forward(0, 1, 100, 130), forward(1, 0, 50, 60), forward(1, 1, 140, 150),
    )  # fmt: skip
    times = analyze(trace, Options(window_ns=(90, 200))).kernel_times
    assert times[["stage", "part", "kernels", "ns", "layer_ns"]].to_numpy().tolist() == [
        [0, "communication", 1, 10, 0],
        [0, "matrix", 1, 30, 15],
        [1, "communication", 1, 10, 0],
        [1, "matrix", 1, 10, 10],
    ]


def test_an_empty_queue_within_a_microbatch_is_told_from_waiting_for_another_stage() -> None:
    # GIVEN stage 1 that waits for its input until 200, then runs with gaps of 30 and 20 between its kernels
    trace = recording(
        [
            Slice(0, 0, 200), send(0, 1, 200, 210), recv(1, 0, 0, 210),
            Slice(1, 210, 250), Slice(1, 280, 300), Slice(1, 320, 400),
        ],
        forward(0, 0, 0, 200), forward(1, 0, 210, 400),
    )  # fmt: skip
    found = analyze(trace)
    gaps, at_work = launch_gaps(found.timeline, found.spans, 1)
    assert (gaps.tolist(), at_work.tolist()) == ([[250, 280], [300, 320]], [[210, 400]])
    assert launch_gaps(found.timeline, found.spans, 0)[0].tolist() == []


def test_what_devices_did_long_before_the_first_step_is_not_looked_at() -> None:
    # GIVEN a kernel of the engine's start, one that prepares the first step, and one of the engine's end
    trace = recording(
        [
            Slice(0, 0, 50), Slice(0, 8990, 8995), Slice(0, 9000, 9100), send(0, 1, 9100, 9110),
            recv(1, 0, 9000, 9110), Slice(1, 9110, 9150), Slice(1, 20000, 20010),
        ],
        forward(0, 0, 9000, 9100), forward(1, 0, 9110, 9150),
    )  # fmt: skip
    assert analyze(trace, Options(idle_gap_ns=100)).window_ns == (8990, 9150)
    assert analyze(trace, Options(idle_gap_ns=100_000)).window_ns == (0, 20010)


def test_what_kernels_cost_per_layer_on_one_device() -> None:
    # GIVEN all four layers on one device, and two microbatches whose kernels take 40 and 60 ns, a copy 8
    kernels = [Slice(0, 0, 40), Slice(0, 200, 260), Slice(0, 290, 298, "Memcpy HtoD", category="copy")]
    run = Run(devices=(Device(rank=0, stage=0),), partition=(4,))
    spans = pd.concat([forward(0, 0, 0, 100), forward(0, 1, 200, 300)], ignore_index=True)
    found = analyze(replace(trace_of(kernels, run), spans=spans)).kernel_times
    rows = found[["stage", "part", "kernels", "ns", "layer_ns"]].to_numpy().tolist()
    assert rows == [[0, "copy", 1, 8, 1], [0, "matrix", 2, 100, 12]]
