"""A real server that is being recorded and driven, to be ended in the middle."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.engines.left_running import running
from tests.engines.serving import PATIENCE_SECONDS, Recorded

#: More requests than are answered before a test is over.
_ENDLESS = ("--prompt-tokens", "2000", "--requests", "10000")


class Driven:
    """Runs a server in a folder under `bubblescope record`; `ended` waits for its end."""

    def __init__(self, folder: Path, server: Sequence[str], environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._log = folder / "log"
        record = (sys.executable, "-m", "bubblescope", "record", "-o", str(folder / "trace.json"))
        with self._log.open("wb") as log:
            self.recorder = subprocess.Popen(
                [*record, *_ENDLESS, "--", *server], env=environment, cwd=folder, stdout=log, stderr=log
            )

    def wait_until_measuring(self) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while "request 2: " not in self._log.read_text():
            assert self.recorder.poll() is None and time.monotonic() < deadline, self._log.read_text()
            time.sleep(0.05)

    def processes(self, called: str) -> list[int]:
        """Those of the server's whose command begins so, in order."""
        return [pid for name, pid in sorted(running(self._folder)) if name.startswith(called)]

    def ended(self) -> Recorded:
        status = self.recorder.wait(PATIENCE_SECONDS)
        return Recorded(status, self._log.read_text(), self._folder / "trace.json")
