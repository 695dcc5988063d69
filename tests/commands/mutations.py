"""Recordings that make no sense: samples of real ones in which anything was replaced by anything."""

from __future__ import annotations

import contextlib
import copy
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

SAMPLES = Path(__file__).parents[2] / "sample_traces" / "recorded"
#: What must reach neither a terminal nor a page as it is.
HOSTILE = "\x1b[31m\x07<script>alert(1)</script>|`\n\u202e"
#: Facts that collectors of engines other than the sample's write, so that all that is read is reached.
FACTS = (
    "attention_backend", "asynchronous_batch_depth", "batch_tokens", "batches_in_flight", "cards",
    "chunk_tokens", "clock", "compilation", "detail", "detail_asked", "device_clock_uncertainty_ns",
    "dynamic_chunking", "exit_status", "failure", "keep_seconds", "kernels:asked", "largest_microbatch",
    "llama_copies", "llama_device_descriptions", "llama_device_times", "llama_embedding_device",
    "llama_flags", "llama_layer_devices", "llama_output_device", "llama_pipelining", "llama_pipelining_lacks",
    "llama_seen_by", "llama_splits", "prefix_caching", "requests_at_once",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 7, 1 << 31, -(1 << 31), (1 << 61) - 1, 1 << 62, -(1 << 63), 1 << 70,
    10**400, 1.5, -0.0, 1e308, float("nan"), float("inf"), "", "0", "nan", HOSTILE, "x" * 5000, "\ud800", [],
    {}, [[]], [None], [1], [0, 1], [1.5], [HOSTILE], [-1, 1 << 40], {"a": None}, {"": ""}, {HOSTILE: HOSTILE},
    {"0": {"name": HOSTILE}}, [{}], [{"device": 0, "name": None}], [[0, 1], [2]], [0] * 300,
)  # fmt: skip
ENGINES = ("vllm", "sglang", "llama.cpp", None, HOSTILE, "")


def sample(name: str, most: int = 150) -> dict[str, Any]:
    """A recording of the samples, with at most so many of its rows, evenly chosen."""
    with gzip.open(SAMPLES / f"{name}.json.gz") as file:
        document: dict[str, Any] = json.load(file)
    events = document["traceEvents"]
    document["traceEvents"] = events[:: max(1, len(events) // most)]
    document["bubblescope"]["rows"] = {}
    return document


def mutated(document: dict[str, Any], random: Random) -> dict[str, Any]:
    """A copy to which a few things were done."""
    made = copy.deepcopy(document)
    for _ in range(random.choice((1, 1, 2, 3, 5))):
        with contextlib.suppress(AttributeError, TypeError, KeyError, IndexError):  # gone by an earlier one
            random.choice(_MUTATIONS)(made, random)
    return made


def _facts(document: dict[str, Any], random: Random) -> None:
    facts = document["bubblescope"]["run"]["facts"]
    name = random.choice((*FACTS, *facts))
    if isinstance(facts.get(name), (dict, list)) and facts[name] and random.random() < 0.6:
        _inside(facts[name], random)
    else:
        facts[name] = random.choice(VALUES)


def _model(document: dict[str, Any], random: Random) -> None:
    model = document["bubblescope"]["run"]["model"]
    model[random.choice(("layers", "name", "heads", "weights", "quantization", "experts"))] = random.choice(
        VALUES
    )


def _head(document: dict[str, Any], random: Random) -> None:
    run = document["bubblescope"]["run"]
    if random.random() < 0.3:
        run["engine"] = random.choice(ENGINES)
    else:
        _inside(run, random)


def _plausible_head(document: dict[str, Any], random: Random) -> None:
    """What has the right type and makes no sense."""
    run = document["bubblescope"]["run"]
    whole = random.choice((0, 1, -1, 3, 1000, 1 << 31, 1 << 60))
    choices: tuple[Callable[[], Any], ...] = (
        lambda: run.update(partition=random.choice(([], [0], [whole], [1, whole], [-5, 5], [1] * 500))),
        lambda: run.update(window_ns=random.choice(([0, 0], [whole, -whole], [-(1 << 61), 1 << 61]))),
        lambda: run.update(world_size=whole),
        lambda: run.update(command=[HOSTILE, "--x"] * 3),
        lambda: run["devices"][0].update(
            random.choice(({"stage": whole}, {"name": HOSTILE}, {"rank": whole}, {"capability": HOSTILE}))
        ),
        lambda: run["devices"].extend([{"name": "H200", "stage": 1}] * 50),
        lambda: run["devices"].pop(),
        lambda: run["clock"].update(random.choice(({"aligned": False}, {"uncertainty_ns": whole}))),
        lambda: run["lost"].append({"what": HOSTILE, "why": HOSTILE, "count": whole, "damage": True}),
    )
    random.choice(choices)()


def _inside(value: Any, random: Random) -> None:
    """Replace something within a list or an object, at any depth."""
    while True:
        key = random.choice(list(value) if isinstance(value, dict) else range(len(value)))
        if not isinstance(value[key], (dict, list)) or not value[key] or random.random() < 0.3:
            break
        value = value[key]
    if isinstance(value, dict) and random.random() < 0.2:
        del value[key]
    else:
        value[key] = random.choice(VALUES)


def _rows(document: dict[str, Any], random: Random) -> None:
    """Replace one column of some rows, by one value or by many."""
    rows = [event for event in document["traceEvents"] if event.get("args")]
    if not rows:
        return
    columns = list(random.choice(rows)["args"])
    if not columns:
        return
    column, share = random.choice(columns), random.choice((0.02, 0.3, 1.0))
    value = random.choice(VALUES)
    for row in rows:
        if column in row["args"] and random.random() < share:
            row["args"][column] = value


def _plausible_rows(document: dict[str, Any], random: Random) -> None:
    """Rows that are well formed and contradict each other."""
    rows = [e["args"] for e in document["traceEvents"] if isinstance(e.get("args"), dict)]
    spans = [row for row in rows if type(row.get("end_ns")) is int and type(row.get("begin_ns")) is int]
    shift = random.choice((1, 10**6, 10**9, 1 << 60))
    share = random.choice((0.02, 0.3, 1.0))
    what = random.randrange(8)
    many = random.choice((3, 300, 100_000))
    kinds = (
        "forward", "recv", "send", "copy", "split", "layer", "attention", "schedule", "sync", "sample",
        "save",
    )  # fmt: skip
    for row in spans:
        if random.random() > share:
            continue
        if what == 0:
            row["end_ns"] = row["begin_ns"]
        elif what == 1:
            row["end_ns"] += shift
        elif what == 2:
            row["begin_ns"] -= shift
        elif what == 3 and "stage" in row:
            row["stage"] = random.randrange(-1, many)
        elif what == 4 and "kind" in row:
            row["kind"] = random.choice(kinds)
        elif what == 5 and "microbatch" in row:
            row["microbatch"] = random.choice((0, -1, 1 << 62, random.randrange(many)))
        elif what == 6 and "tokens" in row:
            row["tokens"], row["prefix"] = random.choice(((0, 0), (-5, -1), (1 << 62, 1 << 62), (1, 1 << 40)))
        elif what == 7 and "layer_begin" in row:
            row["layer_begin"], row["layer_end"] = random.choice(((5, 1), (0, 1 << 30), (-1, 8), (3, 3)))


def _requests(document: dict[str, Any], random: Random) -> None:
    """Requests that no span belongs to, that end before they arrive, of one name."""
    times = [e["args"]["begin_ns"] for e in document["traceEvents"] if "begin_ns" in e.get("args", {})]
    numbers = [time for time in times if type(time) is int] or [0]
    for _ in range(random.choice((1, 3, 40))):
        arrival = random.choice(numbers) + random.choice((0, -(10**9), 10**12))
        document["traceEvents"].append(
            {
                "ph": "b", "cat": "request", "name": random.choice(("r", "1", HOSTILE)), "pid": 0, "ts": 0,
                "args": {
                    "arrival_ns": arrival,
                    "first_token_ns": random.choice((None, arrival, arrival - 5, arrival + 10**8, 1 << 60)),
                    "end_ns": random.choice((None, arrival + 10**9, arrival - 10**9)),
                    "prompt_tokens": random.choice((0, -1, 1000, 1 << 62)),
                    "output_tokens": random.choice((0, -1, 5)), "warmup": random.random() < 0.3,
                },
            }
        )  # fmt: skip


def _counters(document: dict[str, Any], random: Random) -> None:
    name = random.choice(
        ("sm_clock_mhz", "power_w", "temperature_c", "clock_reasons", "memory_used_bytes", HOSTILE)
    )
    times = [e["args"]["begin_ns"] for e in document["traceEvents"] if "begin_ns" in e.get("args", {})]
    begin = next((time for time in times if type(time) is int), 0)
    value = random.choice((0, -1, 1e308, "nan", "inf", "-inf", 1 << 60, 0.5))
    step = random.choice((0, 10**7, -(10**9)))
    document["traceEvents"] += [
        {
            "ph": "C", "name": name, "pid": number % 2, "ts": 0, "time_ns": begin + number * step,
            "args": {"value": random.choice((value, 100 * number))},
        }
        for number in range(random.choice((1, 50)))
    ]  # fmt: skip


def _fewer(document: dict[str, Any], random: Random) -> None:
    events = document["traceEvents"]
    phase = random.choice(("X", "b", "C", "M"))
    share = random.choice((0.1, 0.9, 1.0))
    document["traceEvents"] = [e for e in events if e.get("ph") != phase or random.random() > share]


def _twice(document: dict[str, Any], random: Random) -> None:
    document["traceEvents"] += copy.deepcopy(random.choices(document["traceEvents"] or [{}], k=100))


_MUTATIONS: tuple[Callable[[dict[str, Any], Random], None], ...] = (
    _facts, _facts, _facts, _model, _head, _plausible_head, _plausible_head, _rows, _rows, _plausible_rows,
    _plausible_rows, _plausible_rows, _requests, _counters, _fewer, _twice,
)  # fmt: skip
