"""Front end of a driver: logins that were entered for one run serve the next ones."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from torchdeck.use_cases.ui import Phase, Progress, Ui

if TYPE_CHECKING:
    from torchdeck.agent.processes.detached_process import DetachedProcess
    from torchdeck.nodes.connector import Connector


class KeptLogins:
    """Another front end, with one connector for all runs.

    Args:
        ui: the front end.
    """

    def __init__(self, ui: Ui) -> None:
        self._ui = ui
        self._connectors: dict[Path, Connector] = {}

    def waiting(self, phase: Phase) -> AbstractContextManager[Progress]:
        return self._ui.waiting(phase)

    def connector(self, home: Path) -> Connector:
        """Return the connector, which is made when it is first needed."""
        if home not in self._connectors:
            self._connectors[home] = self._ui.connector(home)
        return self._connectors[home]

    def note(self, text: str) -> None:
        self._ui.note(text)

    def check(self) -> None:
        self._ui.check()

    def before_start(self) -> None:
        self._ui.before_start()

    def adopt(self, controller: DetachedProcess) -> None:
        self._ui.adopt(controller)
