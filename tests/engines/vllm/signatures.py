"""Signatures of the functions that are hooked, read from vLLM's sources without running them.

    python -m tests.engines.vllm.signatures FOLDER...

prints the table for `signatures.json`; each FOLDER is named as the version whose sources it holds.
"""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

from bubblescope.collectors._bubblescope_inject.vllm.targets import HOOKS

TABLE = Path(__file__).with_name("signatures.json")
TARGETS = sorted({f"{hook.module}:{function}" for hook in HOOKS for function in hook.functions})


def signature(sources: Path, target: str) -> str | None:
    """The arguments of a function, comma separated; for an imported name what it is; None without it."""
    module, _, function = target.partition(":")
    path = sources.joinpath(*module.split(".")).with_suffix(".py")
    if not path.exists():
        return None
    body = ast.parse(path.read_bytes()).body
    of_class, _, name = function.rpartition(".")
    if of_class:
        body = next((n.body for n in body if isinstance(n, ast.ClassDef) and n.name == of_class), [])
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
            return ", ".join(argument.arg for argument in (*node.args.args, *node.args.kwonlyargs))
        if isinstance(node, ast.ImportFrom) and any(alias.name == name for alias in node.names):
            return f"from {node.module}"
    return None


def main() -> None:
    folders = [Path(folder) for folder in sys.argv[1:]]
    table = {target: {f.name: signature(f, target) for f in folders} for target in TARGETS}
    print(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
