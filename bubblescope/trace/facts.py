"""What a document says of itself beside its events, as torch's profiler writes it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bubblescope.trace.communication import member_ranks
from bubblescope.trace.decimals import whole_number
from bubblescope.trace.json_repair import mended
from bubblescope.trace.model import Device, Group

#: Fields of a document that are read; all others are passed over.
FIELDS = ("distributedInfo", "deviceProperties", "baseTimeNanoseconds", "host_name")

_CUDA_WARP = 32


@dataclass(frozen=True)
class Facts:
    """None and empty where the document does not say.

    base_ns: added to every time of the document.
    began_ns: the wall-clock time that its times count from, to be added where it is one of several files.
    devices: by ordinal, with name, capability and memory only.
    """

    rank: int | None = None
    stage: int | None = None
    world_size: int | None = None
    groups: tuple[Group, ...] = ()
    base_ns: int | None = None
    began_ns: int | None = None
    host: str | None = None
    devices: Mapping[int, Device] = field(default_factory=dict)


def facts_in(fields: Mapping[str, bytes]) -> Facts:
    """The facts in the JSON text of a document's fields; what makes no sense counts as not said."""
    values = {key: _decoded(fields[key]) for key in FIELDS if key in fields}
    info = _mapping(values.get("distributedInfo"))
    host = values.get("host_name")
    return Facts(
        rank=_count(info.get("rank")),
        world_size=_count(info.get("world_size")),
        groups=tuple(_group(entry) for entry in _list(info.get("pg_config")) if isinstance(entry, dict)),
        base_ns=whole_number(values.get("baseTimeNanoseconds")),
        host=host if isinstance(host, str) and host else None,
        devices=dict(map(_device, filter(_has_id, _list(values.get("deviceProperties"))))),
    )


def _decoded(text: bytes) -> Any:
    try:
        return json.loads(mended(text)[0])
    except (ValueError, RecursionError):
        return None


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _count(value: Any) -> int | None:
    number = whole_number(value)
    return number if number is not None and 0 <= number < 1 << 31 else None


def _group(entry: dict[str, Any]) -> Group:
    ranks = entry.get("ranks")
    members = tuple(rank for item in _list(ranks) if (rank := _count(item)) is not None)
    return Group(
        name=str(entry.get("pg_name", "")),
        description=str(entry.get("pg_desc", "")),
        ranks=members or member_ranks(str(ranks)),
    )


def _has_id(entry: Any) -> bool:
    return isinstance(entry, dict) and _count(entry.get("id")) is not None


def _device(entry: dict[str, Any]) -> tuple[int, Device]:
    major, minor = _count(entry.get("computeMajor")), _count(entry.get("computeMinor"))
    is_cuda = entry.get("warpSize", _CUDA_WARP) == _CUDA_WARP and major is not None and minor is not None
    name = entry.get("name")
    return int(entry["id"]), Device(
        name=name if isinstance(name, str) and name else None,
        capability=f"{major}.{minor}" if is_cuda else None,
        memory_bytes=whole_number(entry.get("totalGlobalMem")),
    )
