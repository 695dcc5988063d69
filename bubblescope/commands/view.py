"""`bubblescope view`: the HTML report of a recording, in the browser."""

from __future__ import annotations

import os
import sys
import tempfile
import webbrowser
from pathlib import Path

import click

from bubblescope.commands.analyzed import analyzed, status, trace_parameters


@click.command()
@trace_parameters
def view(path: str, window: str | None, partition: str | None, idle_gap: str) -> int:
    """Open the report of TRACE in the browser, with a timeline to look into.

    The page is one file in the folder for temporary files, readable by you alone; its path is printed.
    Where no browser can be opened, on a server say, copy that file to where one is.

    \b
    Examples:
      bubblescope view trace.json.gz
      bubblescope view profile-folder/ --window request:2
    """
    from bubblescope.report.html.document import to_html

    found = analyzed(path, window, partition, idle_gap)
    # Only its owner may read what mkstemp makes.
    number, name = tempfile.mkstemp(prefix="bubblescope-", suffix=".html")
    with os.fdopen(number, "wb") as file:
        file.write(to_html(found.analysis, found.page))
    click.echo(name)
    if not (_has_screen() and webbrowser.open(Path(name).as_uri())):
        click.echo("bubblescope: no browser can be opened from here; open the file above in one", err=True)
    return status(found.analysis)


def _has_screen() -> bool:
    """Without one, a browser would be a program that takes over the terminal."""
    if sys.platform != "linux" or "BROWSER" in os.environ:
        return True
    return "DISPLAY" in os.environ or "WAYLAND_DISPLAY" in os.environ
