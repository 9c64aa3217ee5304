"""The runs of the home, followed off the GUI thread for everybody who shows some of them."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject

from torchdeck.runs.run_list import RunEntry, RunList, RunsSeen
from torchdeck.runs.shared_follower import SharedFollowers
from torchdeck_app.bridge.poller import Poller

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
        if seen.unread:
            self.poke()
        return seen

    def _keep(self, seen: RunsSeen) -> None:
        self._seen = seen
