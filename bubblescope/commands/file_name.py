"""Names of files and folders on the command line."""

from __future__ import annotations

from typing import Any

import click


class FileName(click.Path):
    """As `click.Path`, but an empty name, as of an unset variable, does not mean the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("the name of a file or folder is empty.", param, ctx)
        return super().convert(value, param, ctx)
