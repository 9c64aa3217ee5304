"""The runs of the home, followed off the GUI thread for everybody who shows some of them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject

from torchdeck.contract.refusal import Refusal
from torchdeck.runs.run_list import RunEntry, RunList, RunsSeen
from torchdeck.runs.shared_follower import SharedFollowers
from torchdeck_app.bridge.poller import Poller

if TYPE_CHECKING:
    from torchdeck.use_cases.kept_controller import KeptController
    from torchdeck.use_cases.logins import Logins

__all__ = ["RunEntry", "RunListPoller", "RunsSeen"]
INTERVAL = 1.0
"""Seconds between two looks."""


class RunListPoller(Poller[RunsSeen]):
    """Looks at the list of runs once a second; `changed` carries a RunsSeen.

    While there are runs that were not read yet, one look follows the other, and each shows what it has.
    """

    def __init__(self, home: Path, parent: QObject | None = None, *, interval: float = INTERVAL) -> None:
        self._list = RunList(home)
        self._seen = RunsSeen(())
        self.logins: Logins = dict
        """What was given so far, for controllers that are started again; must not ask, nor connect."""
        self._kept: dict[str, KeptController] = {}
        super().__init__("run list", self._look_on, interval, parent)
        self.changed.connect(self._keep)

    @property
    def seen(self) -> RunsSeen:
        """What was told last; for who comes later. For the GUI thread."""
        return self._seen

    @property
    def followers(self) -> SharedFollowers:
        """By which it follows the runs; for who looks at one of them as well."""
        return self._list.followers

    def _look_on(self) -> RunsSeen:
        """In the thread."""
        seen = self._list.look()
        self._keep_controllers(seen)
        if seen.unread:
            self.poke()
        return seen

    def _keep_controllers(self, seen: RunsSeen) -> None:
        """Start controllers that were killed while the window shows their runs, and those of lost runs."""
        live = {
            entry.id: entry
            for entry in seen.entries
            if entry.is_live or (entry.view is not None and entry.view.unfenced)
        }
        if not live:
            return
        from torchdeck.use_cases.kept_controller import KeptController  # with all that a launch needs

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
