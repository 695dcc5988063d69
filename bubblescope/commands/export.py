"""`bubblescope export`: the recording for another viewer."""

from __future__ import annotations

from pathlib import Path

import click

from bubblescope.commands.analyzed import analyzed, status, trace_parameters
from bubblescope.commands.file_name import FileName


@click.command()
@trace_parameters
@click.option(
    "--perfetto", "target", type=FileName(), metavar="FILE", required=True,
    help="Where to write; gzipped if it ends in .gz.",
)  # fmt: skip
@click.option("--force", is_flag=True, help="Overwrite the file if it exists.")
def export(
    path: str, window: str | None, partition: str | None, idle_gap: str, target: str, force: bool
) -> int:
    """Write TRACE for ui.perfetto.dev or chrome://tracing: every kernel, and the state of each moment.

    All ranks are in one file and on one clock; a lane of its own shows the states of each device.
    Secrets are taken out as by `bubblescope redact`.

    \b
    Examples:
      bubblescope export profile-folder/ --perfetto all-ranks.json.gz
      bubblescope export trace.json.gz --perfetto request-2.json --window request:2
    """
    from bubblescope.trace.whole_file import refuse_to_overwrite

    refuse_to_overwrite(Path(target), force)

    from bubblescope.report.perfetto import with_states
    from bubblescope.trace.write import write_trace

    analysis = analyzed(path, window, partition, idle_gap).analysis
    write_trace(with_states(analysis), target, force)
    click.echo(f"wrote {target}: open it at ui.perfetto.dev, which reads it in your browser", err=True)
    return status(analysis)
