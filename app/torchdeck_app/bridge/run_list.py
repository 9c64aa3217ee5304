"""Runs of the home, followed off the GUI thread for all widgets that show them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject

from torchdeck.contract.refusal import Refusal
from torchdeck.runs.run_list import RunEntry, RunList, RunsSeen
from torchdeck_app.bridge.background_loop import Poller

if TYPE_CHECKING:
    from torchdeck.use_cases.kept_controller import KeptController
    from torchdeck.use_cases.ui import Logins

__all__ = ["RunEntry", "RunListPoller", "RunsSeen"]
INTERVAL = 1.0
"""Seconds between two looks."""


class RunListPoller(Poller[RunsSeen]):
    """Poller of the run list, once per second; `changed` carries a RunsSeen.

    While there are unread runs, polls follow each other without delay, and each delivers a partial result.
    """

    def __init__(self, home: Path, parent: QObject | None = None, *, interval: float = INTERVAL) -> None:
        self._list = RunList(home)
        self._seen = RunsSeen(())
        self.logins: Logins = dict
        """Logins entered so far, for controllers that are started again; must not prompt or connect."""
        self._kept: dict[str, KeptController] = {}
        super().__init__("run list", self._look_on, interval, parent)
        self.changed.connect(self._keep)

    @property
    def seen(self) -> RunsSeen:
        """Return the last delivered state, for later subscribers. For the GUI thread."""
        return self._seen

    def want(self, names: frozenset[str]) -> None:
        """Read these values of metrics, such as `loss:min`, for every run."""
        if names != self._list.wanted:
            self._list.wanted = names
            self.poke()

    def _look_on(self) -> RunsSeen:
        """Do the work, in the thread."""
        seen = self._list.look()
        self._keep_controllers(seen)
        if seen.unread:
            self.poke()
        return seen

    def _keep_controllers(self, seen: RunsSeen) -> None:
        """Restart controllers that were killed while the window shows their runs, and those of lost runs."""
        live = {
            entry.id: entry
            for entry in seen.entries
            if entry.is_live or (entry.view is not None and entry.view.unfenced)
        }
        if not live:
            return
        from torchdeck.use_cases.kept_controller import KeptController  # imports all of a launch's modules

        self._kept = {id_: kept for id_, kept in self._kept.items() if id_ in live}
        for id_, entry in live.items():
            kept = self._kept.setdefault(id_, KeptController(entry.layout, self._given_logins))
            if entry.view is not None:
                with suppress(Refusal):  # it is tried again
                    kept.look(entry.view)

    def _given_logins(self) -> Mapping[str, Any]:
        return self.logins()

    def _keep(self, seen: RunsSeen) -> None:
        self._seen = seen
