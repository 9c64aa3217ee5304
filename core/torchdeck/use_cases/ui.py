"""Front-end interface of a use case: it shows progress, prompts for logins, and may cancel."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torchdeck.agent.processes.detached_process import DetachedProcess
    from torchdeck.config.schema import RunConfig
    from torchdeck.nodes.connector import Connector
    from torchdeck.nodes.ssh.credentials import Asker

Progress = Callable[[str], None]


class Phase(Enum):
    """Phase that takes time, in words that follow `waiting for`."""

    DATA = "looking at the batch plan's data"
    MODEL = "tracing the model"
    TRIAL = "trying torchrun and an all-reduce on the nodes"
    LOGINS = "connecting to its nodes"
    ATTACHING = "asking the run's nodes what they have of it"
    CONTROLLER = "starting controller"
    STARTING = "starting the run"


class Ui(Protocol):
    """Front end. Its methods may be called in any thread; an exception from them ends the call."""

    def waiting(self, phase: Phase) -> AbstractContextManager[Progress]:
        """Return a context for `phase` that yields a progress function."""

    def connector(self, home: Path) -> Connector:
        """Return a connector that can prompt for logins; called if a run has other nodes."""

    def note(self, text: str) -> None:
        """Show a message at once, such as the end of waiting for something."""

    def check(self) -> None:
        """Raise if the call is cancelled; called between two steps."""

    def before_start(self) -> None:
        """Called before a run is created: from here on it is started, and can only be stopped. May raise."""

    def adopt(self, controller: DetachedProcess) -> None:
        """Called with a controller that is left to the front end, which reaps it if it lives that long."""


class QuietUi:
    """Front end for programs: shows nothing, and prompts for logins if there is an `asker`."""

    def __init__(self, asker: Asker | None = None, note: Callable[[str], None] = lambda _text: None) -> None:
        self._asker = asker
        self._note = note

    def waiting(self, phase: Phase) -> AbstractContextManager[Progress]:  # noqa: ARG002 - a program waits
        """Show nothing."""
        return nullcontext(lambda _text: None)

    def connector(self, home: Path) -> Connector:
        """Return a connector that uses keys, the keyring and the asker."""
        from torchdeck.nodes.connector import Connector
        from torchdeck.nodes.ssh.credentials import NoAsker
        from torchdeck.nodes.ssh.keyring_store import Keyring, KeyringAsker

        return Connector(home, KeyringAsker(Keyring(home), self._asker or NoAsker()))

    def note(self, text: str) -> None:
        """Pass the message to the program's function."""
        self._note(text)

    def check(self) -> None:
        """Do nothing: a program does not cancel."""

    def before_start(self) -> None:
        """Do nothing."""

    def adopt(self, controller: DetachedProcess) -> None:
        """It is reaped when something asks for it."""


def connector_for(config: RunConfig, ui: Ui, home: Path) -> Connector | None:
    """Return a connector for the nodes of `config`; None, with nothing imported, for this machine only."""
    from torchdeck.config.chosen_nodes import is_here_alone

    return None if is_here_alone(config) else ui.connector(home)
