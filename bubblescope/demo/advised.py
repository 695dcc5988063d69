"""`python -m bubblescope.demo.advised FOLDER`: record the engine, follow the advice, compare.

Leaves in FOLDER the page `demo.html` and three recordings: `demo.json.gz`, after which is advised, and
`as-it-was.json.gz` and `as-advised.json.gz`, of two engines that answer prompts in turns. A machine may
be slower in one second than in the next, by more than a prediction is off. So what is predicted from the
one is compared with the other, which was measured in the same seconds.
"""

from __future__ import annotations

import contextlib
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bubblescope.analyzers.advice.occupancy import CannotTellError
from bubblescope.analyzers.advice.recommend import Prediction, predict
from bubblescope.analyzers.analysis import analyze
from bubblescope.analyzers.results import Analysis, Recommendation
from bubblescope.demo.__main__ import PARTITION_VARIABLE, TURNS_VARIABLE
from bubblescope.trace.read import read_trace

_PROGRAM = (sys.executable, "-m", "bubblescope")
#: Prompts that each of the two engines answers, without the warm-up.
TURNS = 30


def main(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    demo, was, advised = (folder / f"{name}.json.gz" for name in ("demo", "as-it-was", "as-advised"))
    with _recorded(demo, {}):
        pass
    _run("report", str(demo), "--html", str(folder / "demo.html"), "--force")
    advice = _analysis(demo).recommendation
    if advice.partition is None:
        print(f"\nNo other split is advised: {advice.reason}.")
        return 0
    print(f"\nThe same engine again, in turns with one as advised: {advice.words}", flush=True)
    turns = {TURNS_VARIABLE: str(TURNS)}
    split = {PARTITION_VARIABLE: ",".join(map(str, advice.partition))}
    with _recorded(was, turns) as first, _recorded(advised, turns | split) as second:
        _take_turns((first, second))
    before = _analysis(was)
    try:
        predicted = predict(before, advice.partition)
    except CannotTellError as untold:
        print(f"\nNothing can be predicted: {untold}.")
        return 0
    after = _analysis(advised)
    print(comparison(before.recommendation, predicted, after.recommendation))
    print(f"  By chance alone it could be off by {_percent(chance(_ttft_ns(before), _ttft_ns(after)))}.")
    return 0


def comparison(before: Recommendation, predicted: Prediction, after: Recommendation) -> str:
    """What was measured, what it foretells of the other split, and what that took, as a small table."""
    rows: list[tuple[str, ...]] = [("", "as it was", "predicted", "measured")]
    for name, *times in (
        ("prefill on the devices", before.makespan_ns, predicted.makespan_ns, after.makespan_ns),
        ("time to first token", before.ttft_ns, predicted.ttft_ns, after.ttft_ns),
    ):
        rows.append((name, *("-" if ns is None else f"{ns / 1e6:.0f} ms" for ns in times)))
    lines = [f"  {name:<24}" + "".join(f"{cell:>12}" for cell in cells) for name, *cells in rows]
    if after.makespan_ns is not None:
        off = abs(after.makespan_ns / predicted.makespan_ns - 1)
        lines.append(f"  The prediction is off by {_percent(off)}.")
    return "\n".join(lines)


def _percent(part: float) -> str:
    return f"{100 * part:.1f} %"


def chance(first: Sequence[int], second: Sequence[int]) -> float:
    """How far off the ratio of two means may be at 95 %, as like prompts took unlike times."""
    doubts = [
        statistics.stdev(times) / statistics.fmean(times) / math.sqrt(len(times)) for times in (first, second)
    ]
    return 2 * math.hypot(*doubts)


@contextlib.contextmanager
def _recorded(trace: Path, variables: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    """The engine, recorded, with its input and output; raises CalledProcessError unless it ends well."""
    command = [
        *_PROGRAM,
        "record",
        "-o",
        str(trace),
        "--force",
        "--",
        sys.executable,
        "-m",
        "bubblescope.demo",
    ]
    environment = {**os.environ, **variables}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, env=environment
    ) as engine:
        yield engine
        engine.communicate()
    if engine.returncode:
        raise subprocess.CalledProcessError(engine.returncode, command)


def _take_turns(engines: Sequence[subprocess.Popen[str]]) -> None:
    """Let one engine after the other answer a prompt, every second time in the other order."""
    for number in range(1 + TURNS):
        for engine in engines if number % 2 else reversed(engines):
            assert engine.stdin is not None and engine.stdout is not None  # they are pipes
            if number:
                with contextlib.suppress(BrokenPipeError):  # it has ended, and that will be told
                    engine.stdin.write("\n")
            engine.stdout.readline()


def _run(*arguments: str) -> None:
    subprocess.run((*_PROGRAM, *arguments), check=True)


def _ttft_ns(analysis: Analysis) -> list[int]:
    return [request.ttft_ns for request in analysis.requests if request.ttft_ns is not None]


def _analysis(trace: Path) -> Analysis:
    return analyze(read_trace(trace))


if __name__ == "__main__":
    try:
        sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "out")))
    except subprocess.CalledProcessError as error:
        print(
            f"bubblescope.demo: {' '.join(error.cmd[1:4])} ended with status {error.returncode}",
            file=sys.stderr,
        )
        sys.exit(1)
