"""The command line: finds the command, runs it, and turns every outcome into an exit status.

Only click is imported here, so that `bubblescope --help` answers at once; a command's module is
imported when that command is run.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from bubblescope import __version__
from bubblescope.commands import COMMANDS
from bubblescope.errors import NOT_A_TRACE, USAGE, BubblescopeError

PROGRAM = "bubblescope"
COMPLETE_VARIABLE = "_BUBBLESCOPE_COMPLETE"
DEBUG_VARIABLE = "BUBBLESCOPE_DEBUG"

FAULT = 20
INTERRUPTED = 130
BROKEN_PIPE = 141

LONGEST_FAULT = 300


class _Deferred(click.Command):
    """A command that can be listed without its module, which is imported when it is called."""

    def __init__(self, name: str, target: str, summary: str) -> None:
        super().__init__(name, short_help=summary)
        self.target = target

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        module, attribute = self.target.split(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command.make_context(info_name, args, parent, **extra)


@click.group(
    context_settings={"help_option_names": ["-h", "--help"]},
    commands=[_Deferred(name, *entry) for name, entry in COMMANDS.items()],
)
@click.version_option(__version__, prog_name=PROGRAM, message="%(prog)s %(version)s")
def cli() -> None:
    """Tells why prefill is slow when a model is served over several GPUs with pipeline
    parallelism: which GPU waits, for whom, for how long, and what to change.

    \b
    Examples:
      bubblescope report traces/                      a folder with one file per rank
      bubblescope report rank0.pt.trace.json.gz       one file
      bubblescope report traces/ --json > report.json
      bubblescope report --help
    """


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line (`sys.argv` if `args` is None) and return the exit status.

    Errors are one line on stderr. docs/exit-status.md lists the statuses.
    """
    _write_what_the_terminal_can()
    try:
        try:
            return _run(list(sys.argv[1:] if args is None else args))
        finally:
            _flush()
    except click.ClickException as error:
        with contextlib.suppress(OSError):
            error.show()
        return USAGE
    except BubblescopeError as error:
        return _failed(str(error), error.status)
    except BrokenPipeError:
        return BROKEN_PIPE
    except OSError as error:
        return _failed(_reason(error), NOT_A_TRACE)
    except (KeyboardInterrupt, click.Abort):
        return _failed("interrupted", INTERRUPTED)
    except Exception as error:
        return _fault(error)


def _run(args: list[str]) -> int:
    # Not `cli.main()`: it turns a closed pipe into exit status 1.
    instruction = os.environ.get(COMPLETE_VARIABLE)
    if instruction:
        from click.shell_completion import shell_complete

        return shell_complete(cli, {}, PROGRAM, COMPLETE_VARIABLE, instruction)
    try:
        with cli.make_context(PROGRAM, args) as context:
            status = cli.invoke(context)
    except click.exceptions.Exit as done:
        return done.exit_code
    return status if isinstance(status, int) else 0


def _write_what_the_terminal_can() -> None:
    """Show characters that the terminal's encoding lacks as escapes, instead of failing on them."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _flush() -> None:
    """Write out what is buffered; drop what cannot be written, lest it fails again at exit."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise


def _reason(error: OSError) -> str:
    what = error.strerror or str(error) or type(error).__name__
    return f"{'output' if error.filename is None else error.filename}: {what}"


def _fault(error: Exception) -> int:
    if os.environ.get(DEBUG_VARIABLE):
        import traceback

        traceback.print_exception(error)
    what = f"{type(error).__name__}: {error}"[:LONGEST_FAULT]
    ask = f"This is a fault of ours, please report it ({DEBUG_VARIABLE}=1 shows where it happened)."
    return _failed(f"{what} -- {ask}", FAULT)


def _failed(message: str, status: int) -> int:
    """One line on stderr, whatever the message holds: it may quote a hostile file."""
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in message)
    with contextlib.suppress(OSError):
        click.echo(f"{PROGRAM}: {line}", err=True)
    return status
