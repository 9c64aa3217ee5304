"""Readings of the flight recorder next to captures of CUDA graphs, with a stand-in for the driver."""

from __future__ import annotations

import ctypes
import os
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from torchdeck.telemetry.doctor import rank_heartbeat
from torchdeck.telemetry.doctor.graph_captures import spare_captures

THREAD_LOCAL = 1


class Driver:
    """CUDA's driver; `modes` is what it was asked for."""

    def __init__(self, error: int = 0) -> None:
        self.modes: list[int] = []
        self._error = error

    def cuThreadExchangeStreamCaptureMode(self, mode: Any) -> int:  # noqa: N802 - CUDA's name
        self.modes.append(mode._obj.value)
        return self._error


def install(monkeypatch: pytest.MonkeyPatch, driver: object, *, initialized: bool = True) -> None:
    """Have a program that uses CUDA with this driver; None: it is not loaded."""

    def load(name: str, mode: int) -> object:
        assert (name, mode & os.RTLD_NOLOAD) == ("libcuda.so.1", os.RTLD_NOLOAD)
        if driver is None:
            raise OSError(name)
        return driver

    monkeypatch.setattr(ctypes, "CDLL", load)
    monkeypatch.setitem(sys.modules, "torch.cuda", SimpleNamespace(is_initialized=lambda: initialized))
    monkeypatch.setattr(rank_heartbeat, "whole", lambda: b"{}")


def test_a_reading_is_made_in_the_mode_that_spares_captures(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver()
    install(monkeypatch, driver)
    assert rank_heartbeat._whole() == b"{}"
    assert driver.modes == [THREAD_LOCAL]


@pytest.mark.parametrize("driver", [Driver(error=999), object()], ids=["fails", "is-old"])
def test_without_that_mode_nothing_is_read(driver: object, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, driver)
    assert rank_heartbeat._whole() == b""


def test_a_program_that_does_not_use_cuda_is_read_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch.cuda is not initialized, has no NVIDIA driver, is half imported, or not at all."""
    unused = Driver()
    install(monkeypatch, unused, initialized=False)
    assert spare_captures()
    assert unused.modes == []
    install(monkeypatch, None)
    assert spare_captures()
    monkeypatch.setitem(sys.modules, "torch.cuda", SimpleNamespace())
    assert spare_captures()
    monkeypatch.delitem(sys.modules, "torch.cuda")
    assert rank_heartbeat._whole() == b"{}"
