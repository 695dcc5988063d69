"""`bubblescope redact`: a copy of a trace that can be shown to others."""

from __future__ import annotations

from pathlib import Path

import click

from bubblescope.commands.file_name import FileName
from bubblescope.errors import DAMAGED

_SUFFIXES = (".gz", ".json")


@click.command()
@click.argument("path", type=FileName(), metavar="TRACE")
@click.option(
    "-o", "--output", type=FileName(), metavar="FILE", help="Where to write; gzipped if it ends in .gz."
)
@click.option("--force", is_flag=True, help="Overwrite the file if it exists.")
def redact(path: str, output: str | None, force: bool) -> int:
    """Write a copy of TRACE without secrets: API keys, passwords, prompts, host names.

    The copy is a recording in bubblescope's own format, NAME.redacted.json.gz beside TRACE.
    It holds what is known to be needed; stacks, inputs and other arguments of a foreign trace
    are left behind. Look at it before you share it: a secret that looks like nothing stays.

    \b
    Examples:
      bubblescope redact rank0.pt.trace.json.gz
      bubblescope redact profile-folder/ -o for-the-issue.json.gz
    """
    target = Path(output) if output else _beside(Path(path))
    from bubblescope.trace.whole_file import refuse_to_overwrite

    refuse_to_overwrite(target, force)

    from bubblescope.report.caveats import loss
    from bubblescope.report.progress import reading
    from bubblescope.trace.read import read_trace
    from bubblescope.trace.redact import redaction
    from bubblescope.trace.write import write_trace

    with reading() as progress:
        trace = read_trace(path, progress)
    clean, taken = redaction(trace)
    write_trace(clean, target, force)
    click.echo(f"wrote {target}")
    found = {kind: count for kind, count in sorted(taken.items()) if count}
    for kind, count in found.items():
        click.echo(f"  {count} × {kind} taken out")
    if not found:
        click.echo("  no secrets found in it")
    damaged = [lost for lost in trace.run.lost if lost.damage]
    if damaged:
        click.echo(f"bubblescope: {loss(damaged[0])}; the rest is written", err=True)
    return DAMAGED if damaged else 0


def _beside(path: Path) -> Path:
    """NAME.redacted.json.gz in the folder in which the trace lies."""
    place = path.resolve() if path.name in ("", "..") else path
    name = place.name
    if not place.is_dir():
        for suffix in _SUFFIXES:
            name = name.removesuffix(suffix)
    return place.with_name(f"{name}.redacted.json.gz")
