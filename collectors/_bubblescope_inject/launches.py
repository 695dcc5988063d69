"""How far this process is with launching work on CUDA devices, where that is recorded.

`bubblescope record --kernels` has CUDA load a library that sees every kernel. It numbers the calls of
CUDA, so what a span launched lies between the numbers at its begin and its end.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import cast

#: Names the library.
VARIABLE = "BUBBLESCOPE_KERNELS"


def _found() -> Callable[[], int] | None:
    path = os.environ.get(VARIABLE)
    if not path:
        return None
    try:
        import ctypes

        function = ctypes.PyDLL(path).bubblescope_position  # too short to let go of the interpreter for
        function.restype = ctypes.c_uint32
        return cast("Callable[[], int]", function)
    except Exception:  # a Python without ctypes, a library for another machine
        return None


#: The number of the last call, 0 while nothing is recorded; None where that is not asked for.
position = _found()
