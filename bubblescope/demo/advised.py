"""`python -m bubblescope.demo.advised FOLDER`: record the engine, follow the advice, compare.

Leaves in FOLDER both recordings, `demo.json.gz` and `advised.json.gz`, and the page `demo.html`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from bubblescope.demo.__main__ import PARTITION_VARIABLE

_PROGRAM = (sys.executable, "-m", "bubblescope")


def main(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    _record(folder / "demo.json.gz", {})
    _run("report", str(folder / "demo.json.gz"))
    _run("report", str(folder / "demo.json.gz"), "--html", str(folder / "demo.html"), "--force")
    advice = _recommendation(folder / "demo.json.gz")
    if advice["partition"] is None:
        print(f"\nNo other split is advised: {advice['reason']}.")
        return 0
    words = advice["words"]
    print(f"\nThe same engine again, as advised: {words}", flush=True)
    _record(folder / "advised.json.gz", {PARTITION_VARIABLE: ",".join(map(str, advice["partition"]))})
    print(comparison(advice, _recommendation(folder / "advised.json.gz")))
    return 0


def comparison(advice: dict[str, Any], after: dict[str, Any]) -> str:
    """What was measured, predicted, and measured again, as a small table in milliseconds."""
    rows: list[tuple[str, ...]] = [("", "as it was", "predicted", "measured")]
    for name, key in (("prefill on the devices", "makespan_ns"), ("time to first token", "ttft_ns")):
        figures = (advice[key], advice[f"predicted_{key}"], after[key])
        rows.append((name, *("-" if ns is None else f"{ns / 1e6:.0f} ms" for ns in figures)))
    lines = [
        f"  {name:<24}{before:>12}{predicted:>12}{measured:>12}" for name, before, predicted, measured in rows
    ]
    predicted, measured = advice["predicted_makespan_ns"], after["makespan_ns"]
    if predicted and measured:
        lines.append(f"  The prediction is off by {abs(measured / predicted - 1) * 100:.1f} %.")
    return "\n".join(lines)


def _record(trace: Path, variables: dict[str, str]) -> None:
    command = ("record", "-o", str(trace), "--force", "--", sys.executable, "-m", "bubblescope.demo")
    subprocess.run(
        (*_PROGRAM, *command), check=True, env={**os.environ, **variables}, stdout=subprocess.DEVNULL
    )


def _run(*arguments: str) -> None:
    subprocess.run((*_PROGRAM, *arguments), check=True)


def _recommendation(trace: Path) -> dict[str, Any]:
    report = subprocess.run((*_PROGRAM, "report", str(trace), "--json"), check=True, capture_output=True)
    recommendation: dict[str, Any] = json.loads(report.stdout)["recommendation"]
    return recommendation


if __name__ == "__main__":
    try:
        sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "out")))
    except subprocess.CalledProcessError as error:
        print(
            f"bubblescope.demo: {' '.join(error.cmd[1:4])} ended with status {error.returncode}",
            file=sys.stderr,
        )
        sys.exit(1)
