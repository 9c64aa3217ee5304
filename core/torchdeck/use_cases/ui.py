"""What a use case wants of a front end: it says what is waited for, asks for logins, and may cancel."""

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
    """What takes its time, in words that follow `waiting for`."""

    DATA = "looking at the batch plan's data"
    MODEL = "tracing the model"
    TRIAL = "trying torchrun and an all-reduce on the nodes"
    LOGINS = "connecting to its nodes"
    ATTACHING = "asking the run's nodes what they have of it"
    CONTROLLER = "starting controller"
    STARTING = "starting the run"


class Ui(Protocol):
    """A front end. Its methods may be called in any thread, and raise what ends the call."""

    def waiting(self, phase: Phase) -> AbstractContextManager[Progress]:
        """Entered while `phase` lasts; gives a function that says how far it is."""

    def connector(self, home: Path) -> Connector:
        """How nodes are connected to, with someone to ask for logins; called if a run has other nodes."""

    def note(self, text: str) -> None:
        """Say something at once, such as what is not waited for any longer."""

    def check(self) -> None:
        """Called between two steps; raises if the call is cancelled."""

    def before_start(self) -> None:
        """Called before a run is made: from here on it is started, and can only be stopped. May raise."""

    def adopt(self, controller: DetachedProcess) -> None:
        """Called with a controller that is left to the front end, which reaps it if it lives that long."""


class QuietUi:
    """For programs: shows nothing, and asks for logins if there is an `asker`."""

    def __init__(self, asker: Asker | None = None, note: Callable[[str], None] = lambda _text: None) -> None:
        self._asker = asker
        self._note = note

    def waiting(self, phase: Phase) -> AbstractContextManager[Progress]:  # noqa: ARG002 - a program waits
        """Nothing is shown."""
        return nullcontext(lambda _text: None)

    def connector(self, home: Path) -> Connector:
        """By keys, the keyring, and the asker."""
        from torchdeck.nodes.connector import Connector
        from torchdeck.nodes.ssh.credentials import NoAsker
        from torchdeck.nodes.ssh.keyring_store import Keyring, KeyringAsker

        return Connector(home, KeyringAsker(Keyring(home), self._asker or NoAsker()))

    def note(self, text: str) -> None:
        """As the program wants it."""
        self._note(text)

    def check(self) -> None:
        """A program does not cancel."""

    def before_start(self) -> None:
        """Nothing to do."""

    def adopt(self, controller: DetachedProcess) -> None:
        """It is reaped when something asks for it."""


def connector_for(config: RunConfig, ui: Ui, home: Path) -> Connector | None:
    """What connects to the nodes of `config`; None, with nothing imported, for this machine alone."""
    from torchdeck.config.chosen_nodes import is_here_alone

    return None if is_here_alone(config) else ui.connector(home)
