"""`bubblescope record`: run a command and write down what its pipeline did."""

from __future__ import annotations

import re
from typing import Any

import click

from bubblescope.commands.file_name import FileName

_EXAMPLES = """\b
Examples:
  bubblescope record -- python -m bubblescope.demo
  bubblescope record -o prefill.json.gz -- vllm serve MODEL --pipeline-parallel-size 2
  bubblescope record --prompt-tokens 32000 -- vllm serve MODEL --pipeline-parallel-size 2
  bubblescope record --max-size 1GB --keep-seconds 600 -- ./start-server.sh

The exit status is the command's, 128 + n if signal n ended it. 125: recording failed;
126: the command cannot be executed; 127: it was not found.
"""

_SIZE = re.compile(r"(\d{1,12})(B|KB|MB|GB|TB|)", re.IGNORECASE | re.ASCII)
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SMALLEST = 10**6
_SLOWEST_HZ = 0.01
_COUNT = click.IntRange(min=1)
#: What is said of the prompts; without any there is nothing to say.
_OF_PROMPTS = ("requests", "concurrency", "output_tokens", "warmup", "url", "ready_seconds")


def _size(context: click.Context, parameter: click.Parameter, value: str) -> int:
    found = _SIZE.fullmatch(value)
    size = int(found[1]) * _UNITS[found[2].upper()] if found else 0
    if size < _SMALLEST:
        raise click.BadParameter(f"{value!r} is no size of at least 1MB; 500MB and 2GB are.")
    return size


def _rate(context: click.Context, parameter: click.Parameter, value: float) -> float:
    """A range alone would let NaN pass, and a rate of which the period is no time to wait."""
    if value == 0 or value >= _SLOWEST_HZ:
        return value
    raise click.BadParameter(f"{value:g} is neither 0 nor from {_SLOWEST_HZ:g} to 100 times a second.")


class _Record(click.Command):
    """A wrong option is a failure of our own, and must not be taken for status 2 of the command."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.UsageError as error:
            from bubblescope.record.session import RecordingError

            raise RecordingError(f"{error.format_message()} See `bubblescope record --help`.") from None


def _refuse_what_is_of_prompts() -> None:
    from click.core import ParameterSource

    context = click.get_current_context()
    given = [
        name for name in _OF_PROMPTS if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    ]
    if given:
        from bubblescope.record.session import RecordingError

        option = "--" + given[0].replace("_", "-")
        raise RecordingError(f"{option}: no prompts are sent without --prompt-tokens N")


@click.command(cls=_Record, epilog=_EXAMPLES, context_settings={"allow_interspersed_args": False})
@click.option(
    "-o", "--output", type=FileName(), metavar="FILE",
    help="The trace; gzipped if it ends in .gz. A dated name if not given.",
)  # fmt: skip
@click.option("--append", is_flag=True, help="Keep what is in FILE and add to it.")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@click.option(
    "--max-size",
    callback=_size,
    default="256MB",
    show_default=True,
    metavar="SIZE",
    help="Write at most so much while the command runs; then the oldest goes.",
)
@click.option("--keep-seconds", type=click.IntRange(min=1), metavar="N", help="Keep the last N seconds only.")
@click.option(
    "--detail", type=click.Choice(["stages", "layers"]), default="stages", show_default=True,
    help="Stages as a whole, or layer by layer where the engine lets it be seen; that costs time.",
)  # fmt: skip
@click.option("--kernels", is_flag=True, help="Record every kernel and copy of CUDA devices, of any program.")
@click.option(
    "--nvml-hz", type=click.FloatRange(0, 100), callback=_rate, default=10, show_default=True, metavar="HZ",
    help="Sample clocks, power and temperature of NVIDIA cards so often a second; 0 for never.",
)  # fmt: skip
@click.option("--prompt-tokens", type=_COUNT, metavar="N", help="Drive the server: prompts of N tokens.")
@click.option("--requests", type=_COUNT, default=3, show_default=True, metavar="N", help="How many.")
@click.option("--concurrency", type=_COUNT, default=1, show_default=True, metavar="N", help="Open at once.")
@click.option(
    "--output-tokens", type=_COUNT, default=1, show_default=True, metavar="N", help="Tokens to be answered."
)
@click.option(
    "--warmup", type=click.IntRange(min=0), default=1, show_default=True, metavar="N",
    help="Requests before those that count.",
)  # fmt: skip
@click.option("--url", help="Where the server answers, if COMMAND does not tell.")
@click.option(
    "--ready-seconds", type=_COUNT, default=900, show_default=True, metavar="N",
    help="How long it may take until the server answers.",
)  # fmt: skip
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
def record(
    output: str | None,
    append: bool,
    force: bool,
    max_size: int,
    keep_seconds: int | None,
    detail: str,
    kernels: bool,
    nvml_hz: float,
    prompt_tokens: int | None,
    requests: int,
    concurrency: int,
    output_tokens: int,
    warmup: int,
    url: str | None,
    ready_seconds: int,
    command: tuple[str, ...],
) -> int:
    """Run COMMAND and record what each stage of its pipeline does, and when.

    COMMAND keeps its terminal, its signals, its output and its exit status. When it ends, however
    it ends, what was recorded becomes one trace for `bubblescope report`. While it runs, the
    folder FILE.spool holds the recording; should that be left over, `bubblescope merge` reads it.

    With --prompt-tokens, COMMAND is a server with an OpenAI-compatible interface: once it answers
    it is sent synthetic prompts of exactly so many tokens, then ended as by Ctrl-C. The trace marks
    the measured requests. Without, record until the command ends.
    """
    from bubblescope.load.plan import Load
    from bubblescope.record.messages import Messages
    from bubblescope.record.session import Limits
    from bubblescope.record.session import record as record_command

    wanted = Limits(max_size, keep_seconds)
    load = None
    if prompt_tokens is None:
        _refuse_what_is_of_prompts()
    else:
        load = Load(url or "", prompt_tokens, requests, concurrency, output_tokens, warmup, ready_seconds)
    return record_command(
        command, output, wanted, Messages(), append=append, force=force, load=load, detail=detail,
        kernels=kernels, nvml_hz=nvml_hz,
    )  # fmt: skip
