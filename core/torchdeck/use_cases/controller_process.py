"""Control a run that was made: what the process that a start leaves behind does."""

from __future__ import annotations

from torchdeck.launching.control.controller import run_controller

__all__ = ["run_controller"]
