"""`bubblescope merge`: make a trace of what an interrupted recording, or several hosts, left."""

from __future__ import annotations

from pathlib import Path

import click

from bubblescope.commands.file_name import FileName

_EXAMPLES = """\b
Examples:
  bubblescope merge bubblescope-20260801-120000.json.gz.spool
  bubblescope merge -o both-hosts.json.gz host-a.json.gz host-b.json.gz
"""


@click.command(epilog=_EXAMPLES)
@click.argument("sources", nargs=-1, required=True, type=FileName(path_type=Path), metavar="SPOOL_DIR...")
@click.option(
    "-o",
    "--output",
    type=FileName(),
    metavar="FILE",
    help="The trace; gzipped if it ends in .gz. From SPOOL_DIR if not given.",
)
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
def merge(sources: tuple[Path, ...], output: str | None, force: bool) -> int:
    """Make one trace of the spool folders of a recording, or of traces that were recorded.

    A recording that was interrupted leaves a folder FILE.spool; it stays as it is. What the command said
    of its failure is explained. Of a pipeline over several hosts, give the folder or trace of each:
    their clocks are aligned by the messages between them, or the trace says that they are not.
    """
    from bubblescope.errors import DAMAGED
    from bubblescope.record.destination import destination, of_spool
    from bubblescope.record.explanation import cut_off
    from bubblescope.record.merge import is_spool, summary
    from bubblescope.record.merge import merge as merge_sources
    from bubblescope.record.messages import Messages
    from bubblescope.record.spool import NothingRecordedError
    from bubblescope.report.failure import explanation
    from bubblescope.trace.source import shown

    where = destination(output or of_spool(sources[0]), force=force)
    messages = Messages()
    try:
        trace = merge_sources(sources, where, messages.doing).trace
    except NothingRecordedError:
        # An engine that dies while it starts has done no work, and may have said why.
        for found in filter(None, map(cut_off, filter(is_spool, sources))):
            messages.say(str(found["explanation"]))
        raise
    finally:
        messages.done()
    click.echo(f"wrote {shown(where.trace)}: {summary(trace)}")
    damaged = [lost for lost in trace.run.lost if lost.damage]
    if damaged:
        messages.say(f"{damaged[0].what}: {damaged[0].why}; the rest is written")
    why = explanation(trace.run.facts)
    if why is not None:
        messages.say(why)
    return DAMAGED if damaged else 0
