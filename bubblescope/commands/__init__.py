"""The commands, one module each, known here by name so that listing them imports none."""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """Where a command is ("module:attribute") and what it does, in one line for `--help`."""

    target: str
    summary: str


COMMANDS = {
    "report": Entry("bubblescope.commands.report:report", "Say where the time of a recording went."),
    "view": Entry("bubblescope.commands.view:view", "Open the report of a recording in the browser."),
    "export": Entry("bubblescope.commands.export:export", "Write a recording for Perfetto."),
    "record": Entry("bubblescope.commands.record:record", "Run a command and record its pipeline."),
    "merge": Entry("bubblescope.commands.merge:merge", "Make a trace of an interrupted recording."),
    "redact": Entry("bubblescope.commands.redact:redact", "Take secrets out of a trace before sharing it."),
    "doctor": Entry("bubblescope.commands.doctor:doctor", "Foretell what cannot run, and say why."),
    "build-native": Entry(
        "bubblescope.commands.build_native:build_native", "Compile the native collectors beforehand."
    ),
    "completion": Entry("bubblescope.commands.completion:completion", "Print a shell's completion script."),
}
