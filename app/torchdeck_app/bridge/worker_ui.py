"""Front end of a use case for the window, while a worker runs it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from torchdeck.use_cases.ui import Phase, Progress

if TYPE_CHECKING:
    from torchdeck.agent.processes.detached_process import DetachedProcess
    from torchdeck.nodes.connector import Connector
    from torchdeck_app.bridge.operations import Cancel

_NAMED = frozenset({Phase.LOGINS, Phase.CONTROLLER, Phase.STARTING})
"""Phases that report no progress of their own."""


class WorkerUi:
    """Progress goes to the operation, questions to the dialogs of the connector.

    Args:
        connector: how nodes are connected to.
        progress: takes what is waited for.
        cancel: of the operation.
        adopt: takes controllers that were started, in the worker.
    """

    def __init__(
        self,
        connector: Connector,
        progress: Callable[[str], None],
        cancel: Cancel,
        adopt: Callable[[DetachedProcess], None] = lambda _controller: None,
    ) -> None:
        self._connector, self._progress, self._cancel, self._adopt = connector, progress, cancel, adopt

    def waiting(self, phase: Phase) -> AbstractContextManager[Progress]:
        """Show the phase as part of the operation."""
        if phase in _NAMED:
            self._progress(phase.value)
        return nullcontext(self._progress)

    def connector(self, home: Path) -> Connector:  # noqa: ARG002 - the window has one home
        """Return the window's connector."""
        return self._connector

    def note(self, text: str) -> None:
        """Show the message as progress."""
        self._progress(text)

    def check(self) -> None:
        """Raise CancelledError if the user has cancelled."""
        self._cancel.check()

    def before_start(self) -> None:
        """Check for cancellation a last time."""
        self._cancel.check()

    def adopt(self, controller: DetachedProcess) -> None:
        """Have it reaped, so that it does not look alive when it has ended."""
        self._adopt(controller)
