"""How a command ended: because it was asked to, or of its own accord, and then why."""

from __future__ import annotations

from pathlib import Path

from bubblescope.record.printed import Printed

#: The fact that says why: see `bubblescope.record.explanation.failure`.
FAILURE_FACT = "failure"


class Ending:
    """Looks on from the moment it is made; the command's output stays its own."""

    def __init__(self) -> None:
        self._printed = Printed()
        self._asked = False
        self._starved = _starved_processes()

    def asked(self) -> None:
        """Somebody wants the command to end, so that its end is no failure."""
        self._asked = True

    def failure(self, spool: Path, status: int, in_vain: bool) -> dict[str, object] | None:
        """Why the command failed, if it did; in_vain: it ran, and could not be used."""
        if not in_vain and (status == 0 or self._asked):
            return None
        from bubblescope.record.explanation import failure

        try:
            found = failure(spool, status, self._printed.end(), _starved_processes() - self._starved)
            nothing_new = found["line"] is None and (status == 0 or self._asked)
            return None if nothing_new else found
        except Exception as error:  # the recording counts for more than what is said about its end
            return {"explanation": f"the command ended with status {status}; explaining it failed: {error!r}"}


def _starved_processes() -> int:
    """How many processes this machine's kernel has ended because memory ran out; 0 if it does not tell."""
    try:
        with open("/proc/vmstat", encoding="ascii") as file:
            return next((int(line.split()[1]) for line in file if line.startswith("oom_kill ")), 0)
    except (OSError, ValueError, IndexError):
        return 0
