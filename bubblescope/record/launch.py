"""Running the recorded command as if nobody were in between: same terminal, signals, exit status.

The command runs in the launcher's own process group, so that Ctrl-C, Ctrl-Z and a signal to the
group reach it directly. Only what was sent to the launcher alone is passed on.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from bubblescope.errors import BubblescopeError

OWN_FAILURE, NOT_EXECUTABLE, NOT_FOUND = 125, 126, 127

_END = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}
_PASSED_ON = _END | {signal.SIGUSR1, signal.SIGUSR2}
#: `si_code` of a signal that a process sent; the terminal's come from the kernel.
_FROM_A_PROCESS = 0
#: How long to wait for word that a signal went to the whole group.
_WORD_MS = 200
_PR_SET_PDEATHSIG = 1


class CommandError(BubblescopeError):
    """The command could not be started."""


def run_command(
    command: Sequence[str],
    environment: Mapping[str, str],
    meanwhile: Callable[[], None],
    asked_to_end: Callable[[], None],
    ended: Callable[[], None],
) -> int:
    """Run a command to its end and return its exit status, 128 + n after signal n.

    `meanwhile` is done once it runs, `asked_to_end` with each signal that asks it to end, `ended` once it
    has ended or could not be started: what is sent to us until then was meant for the command. Raises
    CommandError, status 126 or 127, if it cannot be started.
    """
    # A blocked signal waits until it is asked for, so none is lost and no handler is needed.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON | {signal.SIGCHLD})
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would hide how the command ended
    witness = _Witness()
    try:
        child = _started(command, environment, before)
        meanwhile()
        return _waited(child, witness, asked_to_end)
    finally:
        witness.end()
        ended()
        while signal.sigtimedwait(_PASSED_ON, 0):
            pass  # meant for the command, which has ended
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _started(command: Sequence[str], environment: Mapping[str, str], mask: set[signal.Signals | int]) -> int:
    if not command[0]:
        raise CommandError("the name of the command is empty", NOT_FOUND)
    # Python ignores these two; the command must find them as we did.
    python_ignores = (signal.SIGPIPE, signal.SIGXFSZ)
    try:
        return os.posix_spawnp(
            command[0], list(command), environment, setsigmask=mask, setsigdef=python_ignores
        )
    except OSError as error:
        if error.errno == errno.ENOEXEC:  # a script without a first line, which shells run
            return _started(["/bin/sh", *command], environment, mask)
        status = NOT_FOUND if error.errno in (errno.ENOENT, errno.ENOTDIR) else NOT_EXECUTABLE
        what = "command not found" if status == NOT_FOUND else error.strerror
        raise CommandError(f"{command[0]}: {what}", status) from None


def _waited(child: int, witness: _Witness, asked_to_end: Callable[[], None]) -> int:
    while True:
        received = signal.sigwaitinfo(_PASSED_ON | {signal.SIGCHLD})
        if received.si_signo == signal.SIGCHLD:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid == child:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
            continue
        if received.si_signo in _END:
            asked_to_end()
        if not witness.saw(received.si_signo) and received.si_code <= _FROM_A_PROCESS:
            os.kill(child, received.si_signo)


class _Witness:
    """A process of the same group that does nothing but tell which signals it was sent, too.

    What reaches it was sent to the group, and so has reached the command.
    """

    def __init__(self) -> None:
        self._word, telling = os.pipe()
        launcher = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            _bear_witness(telling, launcher)
        os.close(telling)

    def saw(self, number: int) -> bool:
        while select.select([self._word], [], [], _WORD_MS / 1000)[0]:
            if number in os.read(self._word, 1):
                return True
        return False

    def end(self) -> None:
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._word)


def _bear_witness(telling: int, launcher: int) -> NoReturn:
    try:
        os.closerange(0, telling)  # whoever reads the launcher's output must not wait for us
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        while os.getppid() == launcher:
            os.write(telling, bytes([signal.sigwaitinfo(_PASSED_ON).si_signo]))
    finally:
        os._exit(0)
