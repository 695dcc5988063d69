"""Spools whose slots are whole and say what cannot be: each is merged, or refused in one line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random
from struct import Struct

import pytest

from bubblescope.cli import main
from bubblescope.collectors._bubblescope_inject import layout
from bubblescope.collectors._bubblescope_inject.writer import Writer
from tests.commands.mutations import FACTS, HOSTILE, VALUES

ACTIVITY_SLOT = Struct("<qqqIIIIIiHBB10xBB")  # written in C only; docs/spool-format.md, type 8
SLOTS = {
    layout.SPAN: layout.SPAN_SLOT, layout.STAGE: layout.STAGE_SLOT, layout.REQUEST: layout.REQUEST_SLOT,
    layout.INSTANT: layout.INSTANT_SLOT, layout.COUNTER: layout.COUNTER_SLOT, layout.CARD: layout.CARD_SLOT,
    layout.LAUNCHES: layout.LAUNCHES_SLOT, layout.ACTIVITY: ACTIVITY_SLOT,
}  # fmt: skip
NAMES = (
    *FACTS, "command", "engine", "engine_version", "kernels:device:0", "kernels:device:x", "kernels:process",
    "last_words:1:0", "model", "partition", "uuid:0:0", "window_ns", "world_size",
)  # fmt: skip
BITS = {"q": 63, "i": 31, "h": 15, "Q": 64, "I": 32, "H": 16, "B": 8}


def number(code: str, begin_ns: int, random: Random) -> int | float:
    """One that a field of this code can hold; mostly one that could be meant."""
    if code == "d":
        return random.choice((0.0, 1.5, float("nan"), float("inf"), -1e308))
    most = (1 << BITS[code]) - 1
    least = 0 if code.isupper() else -most - 1
    plausible = begin_ns + random.randrange(10**6) if code in "qQ" else random.randrange(4)
    chosen = random.choice((plausible, plausible, plausible, 0, 1, -1, least, most, most // 2))
    return min(max(chosen, least), most)


def write(spool: Path, random: Random) -> None:
    """What one process may have left behind."""
    writer = Writer(str(spool), 1 << 26, None)
    begin_ns = random.choice((10**15, 10**15, 0, (1 << 61) - 10**7, 1 << 62))
    for stage in range(random.randrange(3)):
        writer.add_stage((-1, stage, stage, stage, 4 * stage, 4 * stage + 4), HOSTILE, random.choice("9x"))
    for _ in range(random.randrange(8)):
        text = random.choice(("{", "", "\0", json.dumps(random.choice(VALUES[:-1]))))
        writer.add_fact(random.choice(NAMES), text)
    device = {"name": "H200", "uuid": random.choice(VALUES[:-1]), "rank": random.choice(VALUES[:-1])}
    writer.add_fact("kernels:device:1", json.dumps(device))
    writer.write(lambda file: file.text(HOSTILE, layout.LONGEST_NAME) and None)
    for _ in range(random.randrange(60)):
        kind, slot = random.choice(list(SLOTS.items()))
        codes = [code for code in slot.format if code in "qihQIHBd"][:-2]  # without type and state
        values = [number(code, begin_ns, random) for code in codes]
        if kind in (layout.SPAN, layout.ACTIVITY) and random.random() < 0.8:
            at = 3 if kind == layout.SPAN else 0
            values[at] = begin_ns + random.randrange(10**6)
            values[at + 1] = values[at] + random.randrange(10**5)
        writer.write(lambda file, s=slot, v=values, k=kind: file.put(s, *v, k))  # type: ignore[misc]


def test_each_is_merged_or_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spool, trace = tmp_path / "t.spool", tmp_path / "t.json"
    merged = 0
    for seed in range(20):
        random = Random(seed)
        spool.mkdir()
        for _ in range(random.choice((1, 1, 3))):
            write(spool, random)
        status = main(["merge", str(spool), "-o", str(trace), "--force"])
        seen = capsys.readouterr()
        assert status in (0, 3, 4), seen.err
        assert (seen.out + seen.err).replace("\n", "").isprintable()
        if status != 3:
            merged += 1
            status = main(["report", str(trace), "--json"])
            assert status in (0, 3, 4), capsys.readouterr().err
            capsys.readouterr()
        shutil.rmtree(spool)
    assert merged > 10
