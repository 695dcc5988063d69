"""What holds for all tests: an environment that does not depend on who runs them."""

from __future__ import annotations

import os

from hypothesis import settings

# A terminal's width and colours, and our own switches, would change what the program prints.
for name in list(os.environ):
    if name in {"COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"} or name.startswith("BUBBLESCOPE_"):
        del os.environ[name]

# No deadline: a busy machine is not a failure. In CI the same examples each time.
settings.register_profile("ours", deadline=None, derandomize="CI" in os.environ, print_blob=True)
settings.load_profile("ours")
