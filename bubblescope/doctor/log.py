"""A saved log of an engine, and why it died."""

from __future__ import annotations

import json
import os
from pathlib import Path

from bubblescope.doctor.explanation import LONGEST_OUTPUT, explain, last_error
from bubblescope.errors import UsageError
from bubblescope.report.escape import visible

_UTF8_MOST = 4


def read_log(path: Path) -> str:
    """The end of a log, as much as is looked at; UsageError where it cannot be read."""
    try:
        with path.open("rb") as file:
            if path.is_file():
                file.seek(max(0, file.seek(0, os.SEEK_END) - LONGEST_OUTPUT * _UTF8_MOST))
            return file.read(LONGEST_OUTPUT * _UTF8_MOST).decode("utf-8", "replace")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}; --log names a file to read") from None


def to_text(output: str) -> str:
    """One paragraph, and where that is known from."""
    known = explain(output, ())
    if known is not None:
        return f"{visible(known.text, 1000)}\nread in: {known.source}"
    line = last_error(output)
    if line is None:
        return "no error of an engine was found in this log"
    return f"a failure that is not known here; its own last error: {visible(line, 400)}"


def to_json(output: str) -> str:
    """The same as one object; "known" is the failure's name for scripts, or null."""
    known = explain(output, ())
    if known is None:
        return json.dumps({"known": None, "text": None, "line": last_error(output), "source": ""}, indent=2)
    found = {"known": known.id, "text": known.text, "line": known.line, "source": known.source}
    return json.dumps(found, indent=2)
