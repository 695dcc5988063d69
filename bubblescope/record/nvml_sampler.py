"""Samples clocks, power, temperature and traffic of all cards, beside the recorded command.

It runs on a thread of the recorder: the engine knows nothing of it.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pynvml

from bubblescope import nvml
from bubblescope.collectors._bubblescope_inject.layout import (
    CARD,
    CARD_SLOT,
    REFUSED_AT,
    UNKNOWN,
    UNWRITTEN_AT,
)
from bubblescope.collectors._bubblescope_inject.spoolfile import NoRoomError
from bubblescope.collectors._bubblescope_inject.writer import Writer
from bubblescope.record.cards_fact import CARDS_FACT
from bubblescope.record.nvml_facts import rig

#: How long the end of a recording waits for a sample that is being taken.
_PATIENCE_SECONDS = 2.0
_KIB = 1024
_ALL_LINKS = 0xFFFFFFFF
_NVLINK = (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX)
_PCIE = (pynvml.NVML_PCIE_UTIL_TX_BYTES, pynvml.NVML_PCIE_UTIL_RX_BYTES)


class Sampler:
    """Writes a slot per card `hz` times a second, until it is stopped."""

    def __init__(self, hz: float) -> None:
        self._period = 1 / hz
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nvml", daemon=True)
        self._writer: Writer | None = None

    def start(self, writer: Writer) -> None:
        """Begin, now that the command runs."""
        self._writer = writer
        try:
            self._thread.start()
        except RuntimeError as error:  # no more threads are allowed; the command runs already
            _tell_why_not(writer, error)

    def stop(self) -> None:
        """End, and let go of the spool."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join(_PATIENCE_SECONDS)
        self._writer = None

    def _run(self) -> None:
        writer = self._writer
        assert writer is not None
        try:
            with nvml.cards() as cards:
                writer.add_fact(CARDS_FACT, json.dumps(rig(cards, os.environ, 1 / self._period)))
                self._sample(cards, writer)
        except Exception as error:  # the recording goes on without
            _tell_why_not(writer, error)

    def _sample(self, cards: Sequence[nvml.Card], writer: Writer) -> None:
        tick = 0
        due = time.monotonic()
        while not self._stopped.wait(max(0.0, due - time.monotonic())):
            for number, card in enumerate(cards):
                # Asking for PCIe's traffic takes 20 ms a direction, so each time one card is asked.
                values = tuple(_values(card.handle, with_pcie=tick % len(cards) == number))
                _put(writer, time.monotonic_ns(), values, number)
            tick += 1
            due = max(due + self._period, time.monotonic())


def _tell_why_not(writer: Writer, error: Exception) -> None:
    why = str(error) if isinstance(error, nvml.NvmlError) else f"{type(error).__name__}: {error}"
    with contextlib.suppress(Exception):
        writer.add_fact(CARDS_FACT, json.dumps({"why_not": why}))


def _put(writer: Writer, time_ns: int, values: tuple[int, ...], number: int) -> None:
    try:
        writer.write(lambda file: file.put(CARD_SLOT, time_ns, *values, number, CARD))
    except NoRoomError:
        writer.file.add(UNWRITTEN_AT)
    except struct.error:
        writer.file.add(REFUSED_AT)


def _values(handle: Any, with_pcie: bool) -> Iterator[int]:
    """The values of a slot in its order; UNKNOWN for what the card does not tell."""
    yield _told(lambda: pynvml.nvmlDeviceGetMemoryInfo(handle).used)
    yield from _traffic(handle)
    yield _told(pynvml.nvmlDeviceGetPowerUsage, handle)
    for way in _PCIE:
        yield _told(pynvml.nvmlDeviceGetPcieThroughput, handle, way) if with_pcie else UNKNOWN
    yield _told(pynvml.nvmlDeviceGetCurrentClocksEventReasons, handle)
    for clock in (pynvml.NVML_CLOCK_SM, pynvml.NVML_CLOCK_MEM):
        yield _told(pynvml.nvmlDeviceGetClockInfo, handle, clock)
    yield _told(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU)
    yield _told(lambda: pynvml.nvmlDeviceGetUtilizationRates(handle).gpu)


def _traffic(handle: Any) -> Iterator[int]:
    """Bytes sent and received over all NVLinks since the driver began to count."""
    try:
        fields = pynvml.nvmlDeviceGetFieldValues(handle, [(field, _ALL_LINKS) for field in _NVLINK])
    except pynvml.NVMLError:
        fields = [None, None]
    for field in fields:
        told = field is not None and field.nvmlReturn == pynvml.NVML_SUCCESS
        yield int(field.value.ullVal) * _KIB if told else UNKNOWN


def _told(ask: Callable[..., Any], *arguments: Any) -> int:
    try:
        return int(ask(*arguments))
    except pynvml.NVMLError:
        return UNKNOWN
