"""The page on a terminal: what a person must see, at any width, with and without colour."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from bubblescope.analyzers.results import (
    STATES,
    Analysis,
    DeviceStates,
    Finding,
    RequestBreakdown,
    Straggler,
)
from bubblescope.report.page import page
from bubblescope.report.terminal import show
from bubblescope.trace.model import Clock, Device, Lost, Run
from tests.report.analyses import BEGIN_NS, MS, analysis, requested, without_devices_work

UNEVEN = analysis(
    [
        [("compute", 900), ("idle", 125), ("host", 12), ("drain", 88)],
        [("fill", 100), ("starved", 500), ("compute", 300), ("idle", 125), ("transfer", 2), ("compute", 98)],
    ],
    blame=[(1, 0, "compute", 500), (0, 0, "host", 12)],
    layers=[27, 9],
    concurrency=[(0, 225), (1, 600), (2, 300)],
    ideal_bubble_ratio=0.111,
)


def shown(analysis: Analysis, width: int, source: str = "trace", **console: object) -> str:
    file = io.StringIO()
    show(page(analysis, source), Console(file=file, width=width, highlight=False, **console))  # type: ignore[arg-type]
    return file.getvalue()


def words(text: str) -> str:
    """The text as read: lines joined, frames and padding gone."""
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", text).split())


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_a_person_sees_verdict_stages_waits_and_bubble_at_any_width(width: int) -> None:
    seen = words(shown(UNEVEN, width))
    assert "Stage 1 (NVIDIA H200, 9 layers) waits 50 % of the time for stage 0" in seen
    # 900 + 398 of twice 1000 ms computed.
    assert "Bubble 35 % of the stages' time" in seen
    assert "11 %" in seen
    assert "Stage 1 waited for stage 0 to compute: 500 ms (50 %)" in seen
    assert "Stage 0 had its input, and its own host had not launched the work: 12.0 ms (1.2 %)" in seen


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 120, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(len(line) for line in shown(UNEVEN, width).splitlines()) <= width


@pytest.mark.parametrize("width", [80, 120])
def test_every_state_that_occurs_has_milliseconds_and_percent(width: int) -> None:
    seen = shown(UNEVEN, width)
    for state in ("compute", "starved", "host", "transfer", "fill", "drain", "idle"):
        assert state in seen
    for number in ("900.0", "398.0", "500.0", "12.0", "2.0", "100.0", "88.0", "125.0"):
        assert number in seen
    for part in ("90 %", "40 %", "50 %", "1.2 %", "0.2 %", "10 %", "8.8 %", "11 %"):
        assert part in seen


@pytest.mark.parametrize("stages", [2, 16])
@pytest.mark.parametrize("width", [40, 60, 80])
def test_with_every_state_and_long_times_nothing_is_cut(width: int, stages: int) -> None:
    # GIVEN all eight states, of up to 123 s, on up to 16 stages
    spent = [(state, 1001 * (each + 1)) for each, state in enumerate(STATES[:-1])]
    full = analysis([[*spent, ("host", 123456)] for _ in range(stages)])
    seen = shown(full, width)
    table = seen[seen.index("Time in each state") : seen.index("% of the time in which")]
    assert "…" not in table
    for label in (*STATES, f"stage {stages - 1}", "123456.0", "1001.0", "7007.0"):
        assert label in table


def test_a_state_that_does_not_occur_takes_no_room() -> None:
    assert "blocked" not in shown(UNEVEN, 80)


def test_figures_stand_on_one_line_where_there_is_room() -> None:
    assert re.search(r"stage 0 +900\.0 +90 %", shown(UNEVEN, 120))
    assert not re.search(r"stage 0 +900\.0 +90 %", shown(UNEVEN, 60))


def test_the_strip_shows_when_each_stage_did_what_and_a_legend_what_it_means() -> None:
    lines = shown(UNEVEN, 120).splitlines()
    second = next(line for line in lines if line.startswith("stage 1"))
    assert re.search(r"›+░+█+·+▓?█+", second)
    assert any("█ compute" in line and "░ starved" in line and "· idle" in line for line in lines)


def test_without_unicode_the_marks_are_ascii() -> None:
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    show(page(UNEVEN, "trace"), Console(file=file, width=80, highlight=False))
    file.flush()
    seen = file.buffer.getvalue().decode("ascii")  # type: ignore[attr-defined]
    assert "# compute" in seen
    assert "####" in seen


def test_a_line_never_ends_between_a_number_and_its_unit() -> None:
    for width in range(40, 120):
        prose = shown(UNEVEN, width).replace("Time in each state, ms", "")
        assert not re.search(r"[0-9] *[│]?\n[│]? *(%|ms|s)\b", prose)


def test_concurrency_is_said_in_words() -> None:
    seen = words(shown(UNEVEN, 100))
    # (900 + 398) / 1000 ms.
    assert "While a request is open, 1.30 of 2 on average" in seen
    assert "none 20 %, 1 stage 53 %, 2 stages 27 %" in seen


def test_no_escape_codes_when_it_is_not_a_terminal() -> None:
    assert "\x1b" not in shown(UNEVEN, 100)


def test_colour_only_adds_to_what_is_there_without() -> None:
    coloured = shown(UNEVEN, 100, force_terminal=True, color_system="standard")
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == shown(UNEVEN, 100)


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    plain = shown(UNEVEN, 100, force_terminal=True, color_system="standard")
    # Bold and dim may stay; no foreground or background colour.
    assert not re.search(r"\x1b\[[0-9;]*\b(3[0-79]|4[0-79]|9[0-7])m", plain)


HOSTILE = "\x1b[2J\x1b]0;owned\x07[red]name[/red] [link=file:///etc/passwd]x[/link] \u202e :smile:"


def _hostile() -> Analysis:
    run = Run(
        engine=HOSTILE, engine_version=HOSTILE, clock=Clock(aligned=True, uncertainty_ns=5, how=HOSTILE)
    )
    built = analysis(
        [[("compute", 100)], [("starved", 60), ("compute", 40)]],
        blame=[(1, 0, "compute", 60)],
        devices=[Device(rank=0, name=HOSTILE), Device(rank=1, name=HOSTILE)],
        run=run,
        stragglers=(Straggler("stage", 0, None, 5, HOSTILE),),
        findings=(Finding(HOSTILE, 5, 0, HOSTILE, HOSTILE),),
        lost=(Lost(HOSTILE, HOSTILE, 1, True),),
    )
    built = requested(built, [(HOSTILE, 1, 50, 10, False)])
    return replace(
        built, requests=(RequestBreakdown(HOSTILE, BEGIN_NS + MS, 49 * MS, 10, {HOSTILE: 49 * MS}),)
    )


@pytest.mark.parametrize("width", [80, 200])
def test_a_hostile_recording_commands_neither_terminal_nor_markup(width: int) -> None:
    seen = shown(_hostile(), width, source=HOSTILE)
    assert all(char.isprintable() or char == "\n" for char in seen)
    assert "[red]name[/red]" in seen
    assert r"\x1b[2J" in seen
    assert ":smile:" in seen


def test_a_hostile_recording_sends_no_more_than_colours_to_a_terminal() -> None:
    seen = shown(_hostile(), 100, source=HOSTILE, force_terminal=True, color_system="standard")
    assert all(char.isprintable() or char == "\n" for char in re.sub(r"\x1b\[[0-9;]*m", "", seen))


def test_without_stages_devices_are_listed_and_nothing_is_blamed() -> None:
    plain = replace(UNEVEN, pipeline=False, stages=(), bubble_ratio=None, blame=UNEVEN.blame.iloc[:0])
    seen = shown(plain, 100)
    assert "No pipeline in this recording" in seen
    assert "rank 1" in seen
    assert "Bubble" not in seen
    assert "Who waited" not in seen


def test_a_device_without_rank_is_numbered() -> None:
    plain = replace(UNEVEN, pipeline=False, stages=(), bubble_ratio=None, blame=UNEVEN.blame.iloc[:0])
    nameless = replace(plain, trace=replace(plain.trace, run=Run(devices=(Device(), Device()))))
    seen = shown(nameless, 100)
    assert "device 1" in seen
    assert "unknown device" in seen


def test_without_device_activity_there_is_no_table_of_states() -> None:
    seen = shown(without_devices_work([Device(rank=0, name="CPU")]), 100)
    assert "No device activity" in seen
    assert "no work of it recorded" in seen
    assert "Time in each state" not in seen
    assert "window" not in seen


def test_stages_without_any_work_blame_nobody() -> None:
    dark = replace(
        UNEVEN,
        devices=tuple(replace(each, states_ns={}) for each in UNEVEN.devices),
        stages=tuple(replace(each, states_ns={}, bubble_ratio=None) for each in UNEVEN.stages),
        timeline=UNEVEN.timeline.iloc[:0],
        blame=UNEVEN.blame.iloc[:0],
        bubble_ratio=None,
    )
    seen = shown(dark, 100)
    assert "No device activity" in seen
    assert len(re.findall(r"stage [01] +NVIDIA H200 +[0-9]+ +no work of it recorded +unknown", seen)) == 2
    assert "Who waited for whom" not in seen


def test_without_communication_nobody_is_said_to_have_waited_for_anybody() -> None:
    mute = analysis([[("compute", 60), ("host", 40)]] * 2, blame=[(0, 0, "host", 40), (1, 1, "host", 40)])
    seen = words(shown(mute, 100))
    assert "Who waited for whom Not told: the recording shows no communication." in seen
    assert "its own host" not in seen


def test_one_stage_without_work_leaves_the_other_its_numbers() -> None:
    half = replace(
        UNEVEN, stages=(UNEVEN.stages[0], replace(UNEVEN.stages[1], states_ns={}, bubble_ratio=None))
    )
    seen = shown(half, 100)
    assert "no work of it recorded" in seen
    assert "900.0" in seen


def test_a_recording_of_nothing_is_a_page_too() -> None:
    assert "No device activity" in shown(analysis([]), 80)


def test_unknown_ratios_and_layers_are_said_to_be_unknown() -> None:
    dark = analysis([[("idle", 10)], [("idle", 10)]])
    seen = words(shown(dark, 80))
    assert "unknown" in seen
    assert "?" in seen
    assert "Bubble" not in seen.split("over time")[0]


@pytest.mark.parametrize("width", [80, 120])
def test_sixteen_stages_fit(width: int) -> None:
    wide = analysis(
        [[("fill", n), ("compute", 50), ("starved", 40 - n), ("blocked", 10)] for n in range(16)],
        blame=[(n, 15 - n, "compute", 10 + n) for n in range(16)],
        layers=[4] * 16,
        concurrency=[(n, 10) for n in range(1, 11)],
    )
    seen = shown(wide, width)
    assert max(len(line) for line in seen.splitlines()) <= width
    assert all(re.search(rf"^stage {n} ", seen, re.MULTILINE) for n in range(16))
    # Ten waits in full, the rest counted: 10 + 11 + ... + 15 ms.
    assert "6 shorter waits, together 75.0 ms" in seen


def test_each_rank_is_listed_where_a_stage_has_several() -> None:
    built = analysis(
        [[("compute", 100)], [("starved", 60), ("compute", 40)], [("starved", 70), ("compute", 30)]]
    )
    second = replace(built.stages[1], devices=(1, 2))
    parallel = replace(
        built,
        stages=(built.stages[0], second),
        devices=(*built.devices[:2], DeviceStates(2, 1, built.devices[2].states_ns)),
    )
    seen = shown(parallel, 100)
    assert "2 x NVIDIA H200" in seen
    assert "Every rank" in seen
    assert re.search(r"rank 2 +30\.0", seen)


def test_stragglers_findings_and_losses_are_listed() -> None:
    full = replace(
        UNEVEN,
        stragglers=(Straggler("link", 1, None, 3 * MS, "the link is slow"),),
        findings=(Finding("cpu-embedding", 40 * MS, 0, "Embedding runs on the CPU", "--on-gpu"),),
        lost=(Lost("events", "cut off at byte 4711", 12, True), Lost("requests", "not recorded")),
    )
    seen = words(shown(full, 100))
    assert "The link is slow (+3.00 ms)" in seen
    assert "Embedding runs on the CPU (costs a prompt 40.0 ms) --on-gpu" in seen
    assert "damaged: events: cut off at byte 4711 (12)" in seen
    assert "requests: not recorded" in seen


def test_stragglers_small_beside_a_stages_time_are_counted() -> None:
    excesses = (3 * MS, 2 * MS, 400_000, 300_000)  # 0.1 % of the 1.12 s is 1.12 ms
    slow = tuple(
        Straggler("microbatch", 0, m, ns, f"microbatch {m} was slow") for m, ns in enumerate(excesses)
    )
    seen = words(shown(replace(UNEVEN, stragglers=slow), 100))
    assert "Microbatch 1 was slow (+2.00 ms) 2 smaller ones, together 700 µs" in seen
    assert "Slower than their peers" not in words(shown(replace(UNEVEN, stragglers=slow[2:]), 100))


def test_guessed_layers_are_called_guessed() -> None:
    seen = words(shown(replace(UNEVEN, layers_from="attention"), 100))
    assert "layers per stage: inferred from how often the attention kernel runs" in seen


def test_times_count_from_the_given_origin() -> None:
    file = io.StringIO()
    show(page(UNEVEN, "trace", BEGIN_NS - 2000 * MS), Console(file=file, width=100, highlight=False))
    assert "window 1.12 s, starting at 2.00 s" in file.getvalue()
