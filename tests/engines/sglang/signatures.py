"""Signatures of the functions that are hooked, read from SGLang's sources without running them.

    python -m tests.engines.sglang.signatures FOLDER...

prints the table for `signatures.json`; each FOLDER is named as the version whose sources it holds.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from bubblescope.collectors._bubblescope_inject.sglang.targets import HOOKS
from bubblescope.collectors._bubblescope_inject.sglang.work import EMBEDDING, HEAD
from tests.engines.vllm.signatures import signature

TABLE = Path(__file__).with_name("signatures.json")
TARGETS = sorted(
    {EMBEDDING, HEAD, *(f"{hook.module}:{function}" for hook in HOOKS for function in hook.functions)}
)


def main() -> None:
    folders = [Path(folder) for folder in sys.argv[1:]]
    table = {target: {f.name: signature(f, target) for f in folders} for target in TARGETS}
    print(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
