"""HTML that is escaped because of how it is made: text becomes markup only through `element`."""

from __future__ import annotations

import html
from collections.abc import Iterable

_VOID = frozenset({"br", "input", "meta"})


class Html(str):
    """Markup. Made here, or read from a file of ours; never from a string of a recording."""

    __slots__ = ()


def element(name: str, /, *children: str, **attributes: str | float | bool | None) -> Html:
    """An element with its children; a child that is no Html is text and is escaped.

    attributes: `class_` and `for_` for what Python reserves, "_" elsewhere for "-"; None and False leave
        one out, True writes its name alone.
    """
    written = "".join(
        _attribute(key.rstrip("_").replace("_", "-"), value)
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    end = "" if name in _VOID else f"</{name}>"
    return Html(f"<{name}{written}>{joined(children)}{end}")


def joined(children: Iterable[str]) -> Html:
    """The children one after the other, text escaped."""
    return Html("".join(child if isinstance(child, Html) else html.escape(child) for child in children))


def _attribute(name: str, value: str | float | bool) -> str:
    return f" {name}" if value is True else f' {name}="{html.escape(str(value))}"'
