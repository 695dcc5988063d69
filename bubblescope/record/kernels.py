"""Having CUDA load the library that records what devices do: `record --kernels`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bubblescope.collectors._bubblescope_inject.launches import VARIABLE
from bubblescope.native.build import BuildError, build
from bubblescope.native.libraries import LIBRARIES

#: libcuda loads the library that this names into every process that uses it.
INJECTION = "CUDA_INJECTION64_PATH"
#: By this fact `record` tells that kernels were asked for: "", or why they cannot be recorded.
ASKED_FACT = "kernels:asked"
NOT_LOADED = "no process loaded the library that records them: none used CUDA, or another profiler did"


@dataclass(frozen=True)
class Injection:
    """What the command finds in its environment, or why it finds nothing."""

    environment: Mapping[str, str] = field(default_factory=dict)
    why_not: str = ""


def injection(before: Mapping[str, str]) -> Injection:
    """The injection for a command that would have been given the environment `before`."""
    if before.get(INJECTION):
        return Injection(
            why_not=f"{INJECTION} is set already, so another tool (Nsight Systems, say) records what devices "
            "do, and only one can: record without that tool, or unset the variable"
        )
    try:
        library = str(build(LIBRARIES["cupti"], before))
    except BuildError as error:
        return Injection(why_not=str(error))
    return Injection({INJECTION: library, VARIABLE: library})
