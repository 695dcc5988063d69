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
from bubblescope.analyzers.advice.recommend import predict
from bubblescope.analyzers.analysis import analyze
from bubblescope.analyzers.results import Analysis, RequestBreakdown
from bubblescope.demo.__main__ import PARTITION_VARIABLE, TURNS_VARIABLE
from bubblescope.demo.schedule import TURN_TOKENS
from bubblescope.trace.read import read_trace

_PROGRAM = (sys.executable, "-m", "bubblescope")
#: Prompts that each of the two engines answers, without the warm-up: fewer where they would take longer.
_FEWEST_TURNS, _MOST_TURNS = 6, 30
_TURNS_NS = 40_000_000_000


def main(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    demo, was, advised = (folder / f"{name}.json.gz" for name in ("demo", "as-it-was", "as-advised"))
    with _recorded(demo, {}):
        pass
    _run("report", str(demo), "--html", str(folder / "demo.html"), "--force")
    recorded = _analysis(demo)
    advice = recorded.recommendation
    if advice.partition is None:
        print(f"\nNo other split is advised: {advice.reason}. Other work on this machine may be why.")
        return 0
    print(f"\nThe same engine again, in turns with one as advised: {advice.words}", flush=True)
    turns = affordable_turns(recorded.requests)
    taken = {TURNS_VARIABLE: str(turns)}
    split = {PARTITION_VARIABLE: ",".join(map(str, advice.partition))}
    with _recorded(was, taken) as first, _recorded(advised, taken | split) as second:
        _take_turns((first, second), turns)
    before, after = _analysis(was), _analysis(advised)
    try:
        predicted = predict(before, advice.partition).ttft_ns
    except CannotTellError as untold:
        print(f"\nNothing can be predicted: {untold}.")
        return 0
    took = before.recommendation.ttft_ns
    assert took is not None and predicted is not None  # this engine tells of its requests
    print(comparison(_ttft_ns(before), predicted / took, _ttft_ns(after)))
    return 0


def affordable_turns(requests: Sequence[RequestBreakdown]) -> int:
    """How many turns to take, by how fast this machine answered: both engines' in some 40 s at most."""
    of_a_token = statistics.median(
        request.ttft_ns / request.prompt_tokens for request in requests if request.ttft_ns is not None
    )
    turns = int(_TURNS_NS / (2 * TURN_TOKENS * of_a_token))
    return max(_FEWEST_TURNS, min(turns, _MOST_TURNS))


def comparison(before: Sequence[int], share: float, after: Sequence[int]) -> str:
    """What like prompts took, what of it was to be left, and what was, as a small table.

    Medians, since where a machine does other work some prompts take far longer, on either side.
    before, after: nanoseconds, at least two. share: what was predicted, of the former.
    """
    recorded, measured = statistics.median(before), statistics.median(after)
    predicted = recorded * share
    titles = "".join(f"{title:>12}" for title in ("as it was", "predicted", "measured"))
    times = "".join(f"{ns / 1e6:>9.0f} ms" for ns in (recorded, predicted, measured))
    doubt = math.hypot(*map(_doubt, (before, after)))
    return (
        f"  {'':<24}{titles}\n  {'time to first token':<24}{times}\n"
        f"  The prediction is off by {abs(measured / predicted - 1):.1%}; "
        f"up to {doubt:.1%} may be chance, as like prompts took unlike times."
    )


def _doubt(times: Sequence[int]) -> float:
    """How far off the median may be at 95 %, as a share of it, by how far apart the quartiles are."""
    low, middle, high = statistics.quantiles(times, n=4)
    return 2 * 0.93 * (high - low) / middle / math.sqrt(len(times))


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


def _take_turns(engines: Sequence[subprocess.Popen[str]], turns: int) -> None:
    """Let one engine after the other answer a prompt, every second time in the other order."""
    for number in range(1 + turns):
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
