"""Having llama.cpp load the library that records what ggml does, by LD_PRELOAD.

It does nothing in a process without ggml, so what stands between us and the engine may load it too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bubblescope.native.build import BuildError, build
from bubblescope.native.libraries import LIBRARIES
from bubblescope.record import llama_log
from bubblescope.record.command_line import engine_of
from bubblescope.record.linkage import linked_against_ggml, with_ggml_inside

VARIABLE = "LD_PRELOAD"
_NOTHING_SEEN = (
    "{program} has llama.cpp linked into it without its symbols, where nothing can be seen of it: record one "
    "that was built with shared libraries (BUILD_SHARED_LIBS=ON), or not stripped"
)
#: What the loader takes as the end of a path.
_SEPARATORS = " :"


@dataclass(frozen=True)
class Preload:
    """What the command finds in its environment, or why it finds nothing.

    logs: it is a program of which at least the log can be read.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    why_not: str = ""
    logs: bool = False


def preload(command: Sequence[str], before: Mapping[str, str]) -> Preload:
    """The preloading for a command that would have been given the environment `before`.

    What the user preloads stays, after ours. Nothing where the command starts another engine.
    """
    engine, path = engine_of(command), before.get("PATH")
    if engine != "llama.cpp" and (engine is not None or not linked_against_ggml(command, path)):
        return Preload()
    inside = with_ggml_inside(command, path)
    if inside is not None and not inside.shows_tables:
        logs = Path(inside.file).name in llama_log.PROGRAMS
        return Preload(
            why_not=(llama_log.LIMITS if logs else _NOTHING_SEEN).format(program=inside.file), logs=logs
        )
    try:
        library = str(build(LIBRARIES["ggml"], before))
    except BuildError as error:
        return Preload(why_not=str(error))
    if any(separator in library for separator in _SEPARATORS):
        return Preload(
            why_not=f"LD_PRELOAD cannot name {library}: set XDG_CACHE_HOME to a path without spaces"
        )
    return Preload({VARIABLE: ":".join(filter(None, (library, before.get(VARIABLE))))})
