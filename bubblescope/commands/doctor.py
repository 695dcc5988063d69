"""`bubblescope doctor`: foretell what cannot run, before it is started."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bubblescope.doctor.invocation import ENGINES
from bubblescope.errors import UsageError

if TYPE_CHECKING:
    from bubblescope.doctor.examination import Examination
    from bubblescope.doctor.invocation import Invocation
    from bubblescope.doctor.model_facts import ModelFacts
    from bubblescope.doctor.remark import Remark
    from bubblescope.doctor.rig import Part

#: The exit status for what cannot run.
FAILS = 10

_EXAMPLES = """\b
Examples:
  bubblescope doctor -- vllm serve MODEL --pipeline-parallel-size 2
  bubblescope doctor --engine sglang --engine-version 0.5.12 --model DIR \\
      --devices "RTX PRO 6000, RTX 5090 x2, RTX 4090 48GB x3"
  bubblescope doctor --json -- llama-server -m model.gguf -ngl 99 | jq .verdict
  bubblescope doctor --log server.log
"""


@click.command(epilog=_EXAMPLES)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
@click.option("--engine", type=click.Choice(ENGINES), help="Where no command says it.")
@click.option(
    "--engine-version", metavar="VERSION", help="Without it the installed one, or the newest known here."
)
@click.option(
    "--model", metavar="DIR", help="A checkpoint's folder, a GGUF file, or a hub name in the cache."
)
@click.option(
    "--devices",
    metavar="CARDS",
    help='A rig that is not here, in its order: "RTX 5090 x2, RTX 4090 48GB x3". A size after the name '
    "overrides the memory. Without it the driver of this machine is asked.",
)
@click.option(
    "--log",
    metavar="FILE",
    help="Only say why the engine died that printed FILE.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def doctor(
    command: tuple[str, ...],
    engine: str | None,
    engine_version: str | None,
    model: str | None,
    devices: str | None,
    log: str | None,
    as_json: bool,
) -> int:
    """Say for each card whether a model runs natively, emulated or not at all, and what to do.

    With a COMMAND, the line that starts the engine, the launch is judged too: layers per stage, memory,
    and what would spoil a measurement. Nothing is started. The exit status is 10 where it cannot run.
    """
    if log is not None:
        return _explain(log, as_json, bool(command or engine or engine_version or model or devices))
    from bubblescope.doctor.text import to_json, to_text

    examination = _examine(command, engine, engine_version, model, devices, os.environ)
    click.echo(to_json(examination) if as_json else to_text(examination))
    return FAILS if examination.verdict == "fails" else 0


def _explain(log: str, as_json: bool, more: bool) -> int:
    """Print why an engine died, from a file with its output."""
    from bubblescope.doctor.log import read_log, to_json, to_text

    if more:
        raise UsageError("--log: give it alone, the file tells the rest")
    output = read_log(Path(log))
    click.echo(to_json(output) if as_json else to_text(output))
    return 0


def _examine(
    words: tuple[str, ...],
    engine: str | None,
    version: str | None,
    model: str | None,
    devices: str | None,
    environment: Mapping[str, str],
) -> Examination:
    from bubblescope.doctor.examination import examine
    from bubblescope.doctor.installation import installed_version
    from bubblescope.doctor.invocation import parse_command

    command = parse_command(words, environment) if words else None
    if command is not None and engine not in (None, command.engine):
        raise UsageError(f"--engine: {engine} is named, and the command starts {command.engine}")
    chosen = command.engine if command else engine
    if chosen is None:
        raise UsageError("which engine? name it with --engine, or give its command after --")
    facts, problem = _model(model, command, environment)
    return examine(
        chosen,
        version or installed_version(chosen, command.program if command else None),
        facts,
        _rig(devices, command.environment if command else environment),
        command,
        problem,
    )


def _model(
    name: str | None, command: Invocation | None, environment: Mapping[str, str]
) -> tuple[ModelFacts, Remark | None]:
    """What the model's files tell, or why the command's model cannot be loaded."""
    from bubblescope.doctor.checkpoint import read_model
    from bubblescope.doctor.model_facts import ModelFacts
    from bubblescope.doctor.remark import Remark

    if name is not None:
        return read_model(name, environment), None
    if command is None:
        raise UsageError("which model? name its folder with --model")
    if command.model is None:
        return ModelFacts("the command's model"), None
    try:
        return read_model(command.model, environment), None
    except UsageError as error:
        return ModelFacts(command.model), Remark("fails", str(error), "", "")


def _rig(devices: str | None, environment: Mapping[str, str]) -> tuple[Part, ...]:
    if devices is not None:
        from bubblescope.doctor.rig import parse_devices

        return parse_devices(devices)
    from bubblescope.doctor.nvml import local_rig

    return local_rig(environment)
