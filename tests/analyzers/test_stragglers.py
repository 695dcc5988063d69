"""What is slower than its peers, by how much, and what is not worth saying."""

from __future__ import annotations

from pathlib import Path

from bubblescope.analyzers.analysis import analyze
from bubblescope.analyzers.results import Options, Straggler
from bubblescope.trace import frames
from bubblescope.trace.frames import COUNTERS
from bubblescope.trace.model import Device, Run, Trace
from bubblescope.trace.read import read_trace
from tests.analyzers.handmade import Slice, recv, send, trace_of

MS = 1_000_000
SAMPLES = Path(__file__).parents[2] / "sample_traces" / "recorded"


def recording(
    per_layer: tuple[int, ...],
    layers: tuple[int, ...],
    names: tuple[str, ...],
    slow: dict[int, int] | None = None,
) -> Trace:
    """Ten chunks of 1000 tokens through all stages; `slow` adds time to a microbatch on the last stage."""
    slices: list[Slice] = []
    ready = [0] * len(layers)
    for number in range(10):
        for stage, (cost, held) in enumerate(zip(per_layer, layers, strict=True)):
            begin = max(ready[stage], ready[stage - 1] if stage else 0) + 10
            end = begin + cost * held + (slow or {}).get(number, 0) * (stage == len(layers) - 1)
            name = f"execute_context_1({1000 if number < 9 else 999})_generation_0(0)"
            slices += [
                Slice(stage, begin, end),
                Slice(stage, begin, end, name, category="device_range", lane="r"),
            ]
            if stage + 1 < len(layers):
                slices += [send(stage, stage + 1, end, end + 10), recv(stage + 1, stage, end, end + 10)]
            ready[stage] = end + 10
    run = Run(devices=tuple(Device(rank=rank, name=name) for rank, name in enumerate(names)))
    return trace_of(slices, run)


def stragglers(trace: Trace, layers: tuple[int, ...]) -> tuple[Straggler, ...]:
    return analyze(trace, Options(partition=layers)).stragglers


def test_a_stage_slower_per_layer_than_its_twin_is_named_with_its_cost() -> None:
    # GIVEN 4 layers at 2.4 ms and 4 at 2 ms on the same card: 10 chunks × 4 layers × 0.4 ms
    trace = recording((24 * MS // 10, 2 * MS), (4, 4), ("A", "A"))
    (found,) = stragglers(trace, (4, 4))
    assert (found.kind, found.stage, found.excess_ns) == ("stage", 0, 16 * MS)
    assert "20 %" in found.text


def test_the_fixed_cost_of_a_step_is_not_blamed_on_a_stage_of_few_layers() -> None:
    # GIVEN 9 layers and 3, or 8 and 4, the few of them at 2.4 ms against 2 ms
    dear, cheap = 24 * MS // 10, 2 * MS
    assert stragglers(recording((cheap, dear), (9, 3), ("A", "A")), (9, 3)) == ()
    (found,) = stragglers(recording((cheap, dear), (8, 4), ("A", "A")), (8, 4))
    assert found.stage == 1


def test_with_many_layers_the_fixed_cost_explains_nothing() -> None:
    # GIVEN 9 layers at 2.4 ms and 3 at 2 ms: 10 chunks × 9 layers × 0.4 ms
    (found,) = stragglers(recording((24 * MS // 10, 2 * MS), (9, 3), ("A", "A")), (9, 3))
    assert (found.stage, found.excess_ns) == (0, 36 * MS)


def test_more_layers_are_no_straggler() -> None:
    assert stragglers(recording((2 * MS, 2 * MS), (6, 2), ("A", "A")), (6, 2)) == ()


def test_a_slower_type_of_card_is_no_straggler() -> None:
    assert stragglers(recording((4 * MS, 2 * MS), (4, 4), ("A", "B")), (4, 4)) == ()


def test_one_microbatch_that_took_longer_than_its_size_explains() -> None:
    # GIVEN chunk 5 held up by 3 ms on the last stage
    trace = recording((2 * MS, 2 * MS), (4, 4), ("A", "B"), slow={5: 3 * MS})
    (found,) = [straggler for straggler in stragglers(trace, (4, 4)) if straggler.kind == "microbatch"]
    assert (found.stage, found.microbatch) == (1, 5)
    assert abs(found.excess_ns - 3 * MS) < MS // 100
    # A report may list microbatch 5 of stage 0 beside it.
    assert found.text == "microbatch 5 took longer on stage 1 than its size explains"


def test_a_clock_that_fell_while_computing_is_named() -> None:
    # GIVEN device 1 at 2000 MHz for one sample and 1000 MHz for three, all while it computes
    trace = recording((2 * MS, 2 * MS), (4, 4), ("A", "B"))
    busy = trace.slices[(trace.slices["category"] == "kernel") & (trace.slices["operation"] == "")]
    at = [int(begin) + 1 for begin in busy["begin_ns"].tolist()[1:8:2]]
    counters = frames.table(
        COUNTERS,
        {
            "device": [1] * 4,
            "name": ["sm_clock_mhz"] * 4,
            "time_ns": at,
            "value": [2000.0, 1000.0, 1000.0, 1000.0],
        },
    )
    found = stragglers(Trace(trace.run, trace.tracks, trace.slices, counters=counters), (4, 4))
    (clock,) = [straggler for straggler in found if straggler.kind == "device"]
    assert clock.stage == 1 and "1250 MHz" in clock.text and "2000 at best" in clock.text
    assert clock.excess_ns == 80 * MS * 3 // 8


def sampled(trace: Trace, **values: dict[int, list[float]]) -> Trace:
    """With samples of counters, by device, one in the middle of each of its computing kernels."""
    busy = trace.slices[(trace.slices["category"] == "kernel") & (trace.slices["operation"] == "")]
    device = trace.tracks["device"].to_numpy()[busy["track"].to_numpy()]
    rows = [
        (number, name, int(at) + 1, value)
        for name, of_devices in values.items()
        for number, samples in of_devices.items()
        for at, value in zip(busy["begin_ns"].to_numpy()[device == number], samples, strict=False)
    ]
    columns = dict(zip(("device", "name", "time_ns", "value"), zip(*rows, strict=True), strict=True))
    return Trace(trace.run, trace.tracks, trace.slices, counters=frames.table(COUNTERS, columns))


def test_what_held_a_clock_down_is_named_with_how_long() -> None:
    # GIVEN ten samples, the power limit (bit 4) in six, heat (32 or 64) in two, a power brake in none
    trace = sampled(
        recording((2 * MS, 2 * MS), (4, 4), ("A", "B")),
        sm_clock_mhz={1: [2000] + [1000] * 9},
        throttle_reasons={1: [0, 4, 4, 4, 4, 4, 4 | 32, 64, 1, 0]},
    )
    (found,) = [straggler for straggler in stragglers(trace, (4, 4)) if straggler.kind == "device"]
    assert found.text == (
        "device 1 ran at 1100 MHz on average while computing, 2000 at best: "
        "held down by the power limit (60 % of the time) and heat (20 % of the time)"
    )


def test_a_lower_clock_explains_a_slower_stage() -> None:
    # GIVEN 2.4 ms against 2 ms a layer at 1500 against 1800 MHz
    trace = sampled(
        recording((24 * MS // 10, 2 * MS), (4, 4), ("A", "A")),
        sm_clock_mhz={0: [1500] * 9, 1: [1800] * 9},
        throttle_reasons={0: [4] * 9, 1: [0] * 9},
    )
    (found,) = stragglers(trace, (4, 4))
    assert found.text == (
        "stage 0 takes 20 % longer per layer than the fastest stage on the same A, as its clock is lower: "
        "1500 MHz against 1800: held down by the power limit (100 % of the time)"
    )


def test_a_clock_that_is_hardly_lower_explains_nothing() -> None:
    # GIVEN the same at 1700 against 1800 MHz, which is 6 % of 20
    trace = sampled(
        recording((24 * MS // 10, 2 * MS), (4, 4), ("A", "A")), sm_clock_mhz={0: [1700] * 9, 1: [1800] * 9}
    )
    (found,) = stragglers(trace, (4, 4))
    assert found.text.endswith("on the same A")


def test_samples_that_are_no_clock_are_passed_over() -> None:
    trace = sampled(
        recording((2 * MS, 2 * MS), (4, 4), ("A", "A")),
        sm_clock_mhz={0: [float("nan"), 0, -1, float("inf"), 1000], 1: [0] * 9},
        throttle_reasons={0: [float("nan"), 1e300, 4, 4, 4], 1: [-1] * 9},
    )
    assert stragglers(trace, (4, 4)) == ()


def test_two_real_cards_at_their_power_limit() -> None:
    texts = [found.text for found in analyze(read_trace(SAMPLES / "torch_h200x2_clocks.json.gz")).stragglers]
    assert texts[:2] == [
        "device 1 ran at 1506 MHz on average while computing, 1980 at best: "
        "held down by the power limit (96 % of the time)",
        "device 0 ran at 1632 MHz on average while computing, 1980 at best: "
        "held down by the power limit (95 % of the time)",
    ]
    assert "as its clock is lower: 1506 MHz against 1632" in texts[2]


def slow_links(size: int) -> list[tuple[int | None, int]]:
    """Of five messages of one size over each of two links, at 10 and at 30 ns."""
    slices: list[Slice] = []
    for number in range(5):
        at = number * 1000
        slices += [
            Slice(0, at, at + 100),
            send(0, 1, at + 100, at + 110, size),
            recv(1, 0, at + 100, at + 110, size),
        ]
        slices += [
            Slice(1, at + 110, at + 210),
            send(1, 2, at + 210, at + 240, size),
            recv(2, 1, at + 210, at + 240, size),
        ]
        slices += [Slice(2, at + 240, at + 340)]
    found = analyze(trace_of(slices, devices=3)).stragglers
    return [(each.stage, each.excess_ns) for each in found if each.kind == "link"]


def test_a_link_slower_than_its_twin_is_named() -> None:
    assert slow_links(1 << 20) == [(2, 5 * 20)]


def test_small_messages_tell_nothing_of_a_link() -> None:
    assert slow_links(8) == []


def test_a_twin_that_took_no_time_is_no_measure() -> None:
    assert stragglers(recording((2 * MS, 0), (4, 4), ("A", "A")), (4, 4)) == ()


def test_only_what_is_in_the_window_counts() -> None:
    # GIVEN ten chunks of which a window holds the last five: 5 chunks × 4 layers × 0.4 ms
    trace = recording((24 * MS // 10, 2 * MS), (4, 4), ("A", "A"))
    own = trace.slices[(trace.slices["name"] == "gemm") & (trace.slices["track"] == 0)]
    window = int(own["begin_ns"].iloc[5]), int(trace.slices["end_ns"].max())
    (found,) = analyze(trace, Options(partition=(4, 4), window_ns=window)).stragglers
    assert (found.kind, found.stage, found.excess_ns) == ("stage", 0, 8 * MS)
