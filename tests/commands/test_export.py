"""`bubblescope export` on a real recording."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from bubblescope.commands.export import export

SAMPLE = Path(__file__).parents[2] / "sample_traces" / "h200x2_uneven"


def test_all_ranks_kernels_and_states_are_in_one_file(tmp_path: Path) -> None:
    target = tmp_path / "all.json"
    done = CliRunner().invoke(export, [str(SAMPLE), "--perfetto", str(target)], standalone_mode=False)
    assert done.return_value == 0
    events = json.loads(target.read_bytes())["traceEvents"]
    names = [event["name"] for event in events if event["ph"] == "X"]
    assert sum("nvjet" in name for name in names) == 480 + 160
    assert {"compute", "blocked", "starved", "fill"} <= set(names)
