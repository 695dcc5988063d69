"""The cards of a rig, in the order in which an engine numbers them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from bubblescope.doctor.capability import Capability
from bubblescope.doctor.cards import CARDS, Card
from bubblescope.errors import UsageError

GIB = 1 << 30
MOST_DEVICES = 1024

_COUNT = re.compile(r"^(?P<before>[0-9]+)\s*[x×]\s+|\s+[x×]\s*(?P<after>[0-9]+)$|\s+(?P<last>[0-9]+)\s*[x×]$")
_SIZE = re.compile(r"\b([0-9]+)\s*Gi?B\b", re.IGNORECASE)
# What stands in a full product name and tells no card from another.
_NOISE = re.compile(
    r"\b(NVIDIA|GeForce|Tesla|Quadro|Blackwell|Workstation|Edition|Generation|SXM[0-9]?|HBM[0-9]e?|GPU)\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"[a-z]+|[0-9]+")


@dataclass(frozen=True)
class Part:
    """Equal cards that stand next to each other in the rig.

    device: as it is shown. capability, memory_bytes: of one card; None where not known.
    card: what the vendor publishes, for a card that is known here.
    """

    device: str
    count: int
    capability: Capability | None
    memory_bytes: int | None
    card: Card | None


def parse_devices(text: str) -> tuple[Part, ...]:
    """The parts that "RTX 5090 x2, RTX 4090 48GB x3" names; UsageError where it cannot be read."""
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise UsageError(f"--devices: {text!r} names no card between two commas; {_FORM}")
    parts = tuple(map(_parse_one, names))
    if sum(part.count for part in parts) > MOST_DEVICES:
        raise UsageError(f"--devices: more than {MOST_DEVICES} cards")
    return merged(parts)


_FORM = 'write it like "RTX 5090 x2, RTX 4090 48GB x3"'


def _parse_one(text: str) -> Part:
    found = _COUNT.search(text)
    count = int(next(filter(None, found.groups()))[:6]) if found else 1
    name = (text[: found.start()] + text[found.end() :]).strip() if found else text
    if count < 1 or not name:
        raise UsageError(f"--devices: {text!r} is not a card and how many; {_FORM}")
    return replace(named(name), count=count)


def named(name: str, capability: Capability | None = None, memory_bytes: int | None = None) -> Part:
    """One card by its name. What is given besides, as NVML tells it, wins over the published figures.

    A size in the name wins over the published one too: cards are sold with more memory soldered on.
    """
    size = _SIZE.search(name)
    gib = int(size[1][:6]) if size else None
    card = _card(name, gib)
    if card is None:
        asked = gib * GIB if gib else None
        return Part(name, 1, capability, memory_bytes or asked, None)
    return Part(
        f"{_bare(card)} {gib or card.memory_gib}GB",
        1,
        capability or card.capability,
        memory_bytes or (gib or card.memory_gib) * GIB,
        card,
    )


def _card(name: str, gib: int | None) -> Card | None:
    """The card with exactly these words; of several sizes the one asked for, else the smallest."""
    same = [card for card in CARDS if _words(card.name) == _words(name)]
    exact = [card for card in same if card.memory_gib == gib]
    return next(iter(exact or same), None)


def _bare(card: Card) -> str:
    return " ".join(_SIZE.sub("", card.name).split())


def _words(name: str) -> frozenset[str]:
    bare = _NOISE.sub(" ", _SIZE.sub(" ", name)).lower()
    return frozenset(_WORD.findall(bare)) - {"rtx"}


def merged(parts: Iterable[Part]) -> tuple[Part, ...]:
    """The same rig with equal neighbours as one part."""
    out: list[Part] = []
    for part in parts:
        if out and replace(out[-1], count=part.count) == part:
            out[-1] = replace(part, count=out[-1].count + part.count)
        else:
            out.append(part)
    return tuple(out)


def spread(rig: Sequence[Part]) -> tuple[Part, ...]:
    """One part per card: position is the engine's number of the device."""
    return tuple(replace(part, count=1) for part in rig for _ in range(part.count))


def gib(size: int) -> str:
    """Bytes for people: "31.8 GiB"."""
    return f"{size / GIB:.1f} GiB"


def counted(number: int, what: str) -> str:
    """ "1 stage", "2 stages"."""
    return f"{number} {what}{'' if number == 1 else 's'}"
