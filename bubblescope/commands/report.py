"""`bubblescope report`: read a recording, analyse it, say what was found."""

from __future__ import annotations

import click

from bubblescope.commands.analyzed import Analyzed, analyzed, status, trace_parameters
from bubblescope.commands.file_name import FileName
from bubblescope.errors import UsageError

#: Columns of a terminal that does not tell how many it has.
_USUAL_WIDTH = 80
_EXAMPLES = """\b
Examples:
  bubblescope report trace.json.gz
  bubblescope report profile-folder/ --window request:2
  bubblescope report profile-folder/ --window 1.2s:3.4s
  bubblescope report profile-folder/ --partition 27,9 --markdown > report.md
  bubblescope report profile-folder/ --json | jq .bubble_ratio
  bubblescope report profile-folder/ --html report.html
"""


@click.command(epilog=_EXAMPLES)
@trace_parameters
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Markdown, to be posted in an issue.")
@click.option(
    "--html",
    "html",
    type=FileName(),
    metavar="FILE",
    help="Also write one HTML file with a timeline to look into; it needs no network.",
)
@click.option("--force", is_flag=True, help="Overwrite the HTML file if it exists.")
def report(
    path: str,
    window: str | None,
    partition: str | None,
    idle_gap: str,
    as_json: bool,
    as_markdown: bool,
    html: str | None,
    force: bool,
) -> int:
    """Say why prefill is slow: which stage waits, for whom, for how long.

    TRACE is a recording, or a folder with one file per rank. Reads torch profiler (Kineto) traces
    of vLLM and SGLang, plain Chrome traces, and bubblescope's own files, also gzipped, and SQLite
    exports of Nsight Systems.
    """
    from bubblescope.trace.whole_file import refuse_to_overwrite

    if as_json and as_markdown:
        raise UsageError("--json and --markdown: stdout takes one of them; ask twice for both")
    if html is not None:
        refuse_to_overwrite(html, force)
    found = analyzed(path, window, partition, idle_gap)
    try:
        if html is not None:
            _write(found, html, force)
    finally:  # the report is no worse for a page that cannot be written
        _show(found, "json" if as_json else "markdown" if as_markdown else "terminal")
    return status(found.analysis)


def _write(found: Analyzed, html: str, force: bool) -> None:
    from bubblescope.report.html.document import to_html
    from bubblescope.trace.whole_file import whole_file

    with whole_file(html, force) as file:
        file.write(to_html(found.analysis, found.page))
    click.echo(f"wrote {html}", err=True)


def _show(found: Analyzed, form: str) -> None:
    if form == "json":
        from bubblescope.report.document import to_json

        click.echo(to_json(found.analysis))
        return
    if form == "markdown":
        from bubblescope.report.markdown import to_markdown

        click.echo(to_markdown(found.page), nl=False)
        return
    from rich.console import Console

    from bubblescope.report.terminal import show

    console = Console(highlight=False, markup=False, emoji=False)
    if console.width < 1:  # COLUMNS=0, from where there is no terminal
        console.width = _USUAL_WIDTH
    # rich would end the program with status 1 if the reader of a pipe has gone.
    with console.capture() as shown:
        show(found.page, console)
    click.echo(shown.get(), nl=False, color=True)
