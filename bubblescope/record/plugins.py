"""Having an engine load its collector, without touching the engine: as a plugin of its own kind.

Engines find plugins by the metadata of installed packages, and a folder on PYTHONPATH holds
metadata as well as site-packages does. So it works from any other environment too. What every
Python process needs, engine or not, is started by a `sitecustomize` in the same folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

NAME = "bubblescope"
#: Below the spool; it goes with it.
FOLDER = "plugins"
_METADATA = f"Metadata-Version: 2.1\nName: {NAME}-inject\nVersion: 1\n"
_ENTRY_POINTS = f"""[vllm.general_plugins]
{NAME} = _bubblescope_inject.vllm:register

[sglang.srt.plugins]
{NAME} = _bubblescope_inject.sglang:register
"""
#: A Python too old for the collectors, or a host without them, is left alone: there the `sitecustomize` that
#: this one hides, if any, takes its place. Any Python must be able to run it.
_STARTUP = """import sys

startup = None
if sys.version_info >= (3, 10):
    try:
        from _bubblescope_inject import startup
    except ImportError:
        pass
if startup is not None:
    startup.run(__file__)
else:
    import os

    own = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != own]
    this = sys.modules.pop(__name__)
    import sitecustomize
"""

#: Lists of the plugins that an engine may load. Where the user set none, that means all, so it is not set;
#: to SGLang an empty one means all, too.
_LIST, _LIST_UNLESS_EMPTY = "VLLM_PLUGINS", "SGLANG_PLUGINS"
#: Names of variables that vLLM's actors on other hosts are given.
_COPIED_TO_RAY = "VLLM_RAY_EXTRA_ENV_VARS_TO_COPY"


def write(spool: Path) -> Path:
    """Write the metadata and the start-up code, and return the folder that has to be on PYTHONPATH."""
    folder = spool / FOLDER
    metadata = folder / f"{NAME}_inject-1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(_METADATA)
    (metadata / "entry_points.txt").write_text(_ENTRY_POINTS)
    (folder / "sitecustomize.py").write_text(_STARTUP)
    return folder


def environment(before: Mapping[str, str], copied: tuple[str, ...]) -> dict[str, str]:
    """What to set so that an engine loads the plugin in all its processes.

    copied: variables that processes on other hosts must be given, too.
    """
    found = {_COPIED_TO_RAY: _with(before.get(_COPIED_TO_RAY, ""), copied)}
    if _LIST in before:
        found[_LIST] = _with(before[_LIST], (NAME,))
    if before.get(_LIST_UNLESS_EMPTY):
        found[_LIST_UNLESS_EMPTY] = _with(before[_LIST_UNLESS_EMPTY], (NAME,))
    return found


def _with(names: str, more: tuple[str, ...]) -> str:
    before = [name for name in names.split(",") if name.strip()]
    return ",".join([*before, *(name for name in more if name not in before)])
