"""Fixtures of tests that press Launch."""

from contextlib import nullcontext

import pytest


@pytest.fixture
def no_early_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    """Controllers start after the run's directory is there, and not while the run is checked."""
    where = "torchdeck.launching.control.pre_connect.pre_connecting_controller"
    monkeypatch.setattr(where, lambda *_: nullcontext())
