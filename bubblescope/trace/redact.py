"""Taking secrets out of a recording: keys, passwords, prompts, host names, home folders.

Traces get posted in issues. Applied to every text of the run and of the tables; numbers, the
partition and the names of kernels stay as they are.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from bubblescope.trace.frames import COUNTERS, REQUESTS, SLICES, SPANS, TRACKS, Kind
from bubblescope.trace.model import Device, Run, Trace
from bubblescope.trace.secret_text import (
    HOST_FLAG,
    MARK,
    PROMPT_FLAG,
    PROMPT_NAME,
    PUBLIC_FLAG,
    SECRET_FLAG,
    SECRET_NAME,
    is_words,
    random_word,
    without_secrets,
)

#: A shorter host name is not looked for inside other texts, where it may be part of a word.
_SHORTEST_HOST = 4
_HERE = re.compile(r"localhost|127\.[\d.]+|0\.0\.0\.0|\[?::1?\]?")


def redacted(trace: Trace) -> Trace:
    """The recording without secrets; redacting it again changes nothing."""
    return redaction(trace)[0]


def redaction(trace: Trace) -> tuple[Trace, Counter[str]]:
    """The recording without secrets, and how many distinct ones of each kind were taken out."""
    pen = _Pen(trace.run)
    run: Run = pen.value(trace.run)
    tables = {
        schema.name: _with_texts(getattr(trace, schema.name), schema.columns, pen)
        for schema in (TRACKS, SLICES, SPANS, REQUESTS, COUNTERS)
    }
    return Trace(run, **tables), pen.taken


class _Pen:
    """Strikes secrets out and counts them; gives each host the same new name everywhere."""

    def __init__(self, run: Run) -> None:
        self.taken: Counter[str] = Counter()
        names = dict.fromkeys(
            [*(device.host for device in run.devices if device.host), *_hosts_in(run.command)]
        )
        self._aliases = {name: f"host{number}" for number, name in enumerate(names)}
        inside = [name for name in self._aliases if len(name) >= _SHORTEST_HOST]
        longest_first = "|".join(map(re.escape, sorted(inside, key=len, reverse=True)))
        self._hosts = re.compile(rf"(?<![\w.-])(?:{longest_first})(?![\w-])") if inside else None

    def text(self, text: str) -> str:
        """A text without secrets, and without what no file can hold: lone surrogates."""
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if self._hosts:
            text = self._hosts.sub(lambda match: self.host(match.group()), text)
        return without_secrets(text, self.taken)

    def host(self, name: str) -> str:
        alias = self._aliases[name]
        self.taken["host names"] += alias != name
        return alias

    def value(self, value: Any) -> Any:
        """Anything of which a run is made, of the same type, without secrets."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Device):
            host = self.host(value.host) if value.host else value.host
            return dataclasses.replace(value, name=self.value(value.name), host=host)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            changed = {
                entry.name: self.value(getattr(value, entry.name)) for entry in dataclasses.fields(value)
            }
            return dataclasses.replace(value, **changed)
        if isinstance(value, Mapping):
            return {self.text(str(name)): self._field(str(name), entry) for name, entry in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(map(self._word, ("", *value), value))
        return value

    def _field(self, name: str, value: Any) -> Any:
        if SECRET_NAME.fullmatch(name):
            return self._struck("secrets after a name", value)
        if PROMPT_NAME.fullmatch(name):
            return self._struck("prompt text", value)
        return self.value(value)

    def _word(self, before: Any, value: Any) -> Any:
        """An entry of a list, which may be a command: a flag says what the next word is."""
        if isinstance(before, str) and isinstance(value, str):
            if SECRET_FLAG.fullmatch(before):
                return self._struck("secrets after a flag", value)
            if PROMPT_FLAG.fullmatch(before) and (before != "-p" or " " in value):
                return self._struck("prompt text", value)
            if HOST_FLAG.fullmatch(before) and value in self._aliases:
                return self.host(value)
            if not PUBLIC_FLAG.fullmatch(before) and (random := random_word(value)):
                self.taken["random words of a command"] += 1
                return value.removesuffix(random) + MARK
        return self.value(value)

    def _struck(self, kind: str, value: Any) -> Any:
        """A mark instead of a text, or of a list or mapping with texts; numbers stay."""
        is_text = isinstance(value, str) and is_words(value)
        if value == MARK or not (is_text or (isinstance(value, (list, tuple, Mapping)) and value)):
            return value
        self.taken[kind] += 1
        return MARK


def _hosts_in(command: Sequence[str]) -> list[str]:
    """The hosts that a command names, but for those that mean this one."""
    named = [value for flag, value in pairwise(command) if HOST_FLAG.fullmatch(flag)]
    hosts = [name.rpartition(":")[0] if name.count(":") == 1 else name for name in named]
    return [host for host in hosts if host and not _HERE.fullmatch(host)]


def _with_texts(table: pd.DataFrame, columns: Mapping[str, Kind], pen: _Pen) -> pd.DataFrame:
    changed = {name: _with_categories(table[name], pen) for name, kind in columns.items() if kind == "text"}
    return table.assign(**changed)


def _with_categories(column: pd.Series[Any], pen: _Pen) -> Any:
    texts = [pen.text(text) for text in column.cat.categories]
    known = {text: code for code, text in enumerate(dict.fromkeys(texts))}
    codes = np.array([known[text] for text in texts], dtype=np.int64)
    return pd.Categorical.from_codes(codes[column.cat.codes] if len(codes) else [], pd.Index(list(known)))
