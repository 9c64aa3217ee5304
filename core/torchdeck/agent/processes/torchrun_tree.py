"""The processes under torchrun, looked at while it lives: finds orphans that overwrote their environment."""

from __future__ import annotations

import time

from torchdeck.contract.processes import ProcessIdentity, descendants

INTERVAL = 10.0
"""Seconds between two looks."""


class TorchrunTree:
    """Living processes that one attempt's torchrun has started."""

    def __init__(self) -> None:
        self.processes: set[ProcessIdentity] = set()
        self._due = 0.0

    @property
    def is_due(self) -> bool:
        """It has not been looked at for a while."""
        return time.monotonic() >= self._due

    def look(self, torchrun: ProcessIdentity | None) -> None:
        """Look now; what was seen is kept once torchrun is gone."""
        self._due = time.monotonic() + INTERVAL
        if torchrun is not None and torchrun.is_alive():
            self.processes = {process for process in self.processes if process.is_alive()}
            self.processes.update(descendants(torchrun.pid))
