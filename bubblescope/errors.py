"""Errors for people, and the exit status each one carries."""

from __future__ import annotations

USAGE = 2
NOT_A_TRACE = 3
DAMAGED = 4


class BubblescopeError(Exception):
    """One line that says what is wrong, where, and what to do; `status` is the exit status."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class UsageError(BubblescopeError):
    """The command line asks for something that cannot be."""

    def __init__(self, message: str) -> None:
        super().__init__(message, USAGE)


class NotATraceError(BubblescopeError):
    """The input is not a trace, or there is nothing in it."""

    def __init__(self, message: str) -> None:
        super().__init__(message, NOT_A_TRACE)
