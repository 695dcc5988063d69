"""A fake of the driver behind pynvml: two cards whose clocks fall, for machines without any."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

NAMES = ("NVIDIA GeForce RTX 5090", "NVIDIA GeForce RTX 4090")
UUIDS = ("GPU-0000aaaa-1111-2222-3333-444444444444", "GPU-0000bbbb-1111-2222-3333-444444444444")
GIB = 1 << 30
#: Of the power that is drawn when the clock falls for it.
POWER_CAP = 0x4


class FakeDriver:
    """The functions of pynvml that are asked here; a handle is the number of a card.

    asked: how often clocks were asked for. nvlink: whether the cards have NVLink.
    """

    def __init__(self, names: tuple[str, ...] = NAMES, nvlink: bool = True) -> None:
        self.names = names
        self.nvlink = nvlink
        self.asked = 0
        self._sent = 0

    def install(self, monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
        for name in dir(self):
            if name.startswith("nvml"):
                monkeypatch.setattr(pynvml, name, getattr(self, name))
        return self

    def nvmlInit(self) -> None:  # noqa: N802
        pass

    nvmlShutdown = nvmlInit  # noqa: N815

    def nvmlSystemGetDriverVersion(self) -> str:  # noqa: N802
        return "580.95"

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.names)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetName(self, handle: int) -> str:  # noqa: N802
        return self.names[handle]

    def nvmlDeviceGetUUID(self, handle: int) -> str:  # noqa: N802
        return UUIDS[handle]

    def nvmlDeviceGetCudaComputeCapability(self, handle: int) -> tuple[int, int]:  # noqa: N802
        return (12, 0) if handle == 0 else (8, 9)

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:  # noqa: N802
        return SimpleNamespace(total=32 * GIB, used=(handle + 1) * GIB)

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: int) -> int:  # noqa: N802
        return 575_000

    def nvmlDeviceGetMaxClockInfo(self, handle: int, clock: int) -> int:  # noqa: N802
        return 3090

    def nvmlDeviceGetMaxPcieLinkGeneration(self, handle: int) -> int:  # noqa: N802
        return 5

    def nvmlDeviceGetCurrPcieLinkWidth(self, handle: int) -> int:  # noqa: N802
        return 16 if handle == 0 else 8

    def nvmlDeviceGetNvLinkState(self, handle: int, link: int) -> int:  # noqa: N802
        if not self.nvlink or link >= 3:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return int(link < 2)

    def nvmlDeviceGetTopologyCommonAncestor(self, a: int, b: int) -> int:  # noqa: N802
        return pynvml.NVML_TOPOLOGY_HOSTBRIDGE

    def nvmlDeviceGetP2PStatus(self, a: int, b: int, what: int) -> int:  # noqa: N802
        return 0 if what == 0 else 6

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:  # noqa: N802
        return 400_500

    def nvmlDeviceGetPcieThroughput(self, handle: int, way: int) -> int:  # noqa: N802
        return 1000 + way

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: int) -> int:  # noqa: N802
        return POWER_CAP

    def nvmlDeviceGetClockInfo(self, handle: int, clock: int) -> int:  # noqa: N802
        self.asked += 1
        return 2400 if clock == pynvml.NVML_CLOCK_SM else 14001

    def nvmlDeviceGetTemperature(self, handle: int, sensor: int) -> int:  # noqa: N802
        return 71

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:  # noqa: N802
        if handle == 1:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return SimpleNamespace(gpu=98)

    def nvmlDeviceGetFieldValues(self, handle: int, fields: list[Any]) -> list[Any]:  # noqa: N802
        self._sent += 1
        status = pynvml.NVML_SUCCESS if self.nvlink else pynvml.NVML_ERROR_NOT_SUPPORTED
        return [SimpleNamespace(nvmlReturn=status, value=SimpleNamespace(ullVal=self._sent))] * len(fields)
