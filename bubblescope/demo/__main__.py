"""`python -m bubblescope.demo`: answer a few long prompts and print the first token of each.

BUBBLESCOPE_DEMO_PARTITION sets the layers of each stage, `10,2` if it is not set. With
BUBBLESCOPE_DEMO_TURNS it answers so many prompts after the first, each when it is told to by a line on
standard input.
"""

from __future__ import annotations

import os
import signal
import sys

PARTITION_VARIABLE, TURNS_VARIABLE = "BUBBLESCOPE_DEMO_PARTITION", "BUBBLESCOPE_DEMO_TURNS"
MOST_STAGES, MOST_LAYERS, MOST_TURNS = 16, 128, 1000


def main() -> int:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    partition = parsed(os.environ.get(PARTITION_VARIABLE, "10,2"))
    if partition is None:
        print(
            f"{PARTITION_VARIABLE} is the layers of each stage, for example 10,2: at least one each, "
            f"at most {MOST_STAGES} stages and {MOST_LAYERS} layers",
            file=sys.stderr,
        )
        return 2
    turns = os.environ.get(TURNS_VARIABLE)
    if turns is not None and not (turns.isdecimal() and len(turns) < 5 and 0 < int(turns) <= MOST_TURNS):
        print(f"{TURNS_VARIABLE} is a number of prompts from 1 to {MOST_TURNS}", file=sys.stderr)
        return 2
    # A stage is one core, as a GPU is one device. numpy reads this when it is first imported.
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = "1"
    from bubblescope.demo.engine import StageEndedError, serve
    from bubblescope.demo.schedule import REQUESTS, in_turns

    requests = REQUESTS if turns is None else in_turns(int(turns))
    try:
        for answer in serve(partition, requests):
            size = requests[answer.request]
            print(f"request {answer.request}: {size} prompt tokens, next token {answer.token}", flush=True)
            print(
                f"request {answer.request}: TTFT {answer.ttft_ns / 1e6:.0f} ms", file=sys.stderr, flush=True
            )
            if turns is not None:
                sys.stdin.readline()
    except StageEndedError as error:
        print(f"bubblescope.demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return 0


def parsed(text: str) -> tuple[int, ...] | None:
    """Layers per stage, or None if it does not name them."""
    words = text.split(",")
    if not all(word.strip().isdecimal() and len(word) < 10 for word in words):
        return None
    partition = tuple(map(int, words))
    bounded = len(partition) <= MOST_STAGES and sum(partition) <= MOST_LAYERS
    return partition if bounded and min(partition) > 0 else None


if __name__ == "__main__":
    sys.exit(main())
