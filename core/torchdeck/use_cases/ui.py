"""Front-end interface of a use case: progress, prompts for logins, cancellation; and the logins of a run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from torchdeck.contract.layout import RunLayout
from torchdeck.contract.refusal import Refusal
from torchdeck.nodes.background import on_each
from torchdeck.runs.folders.node_parts import remote_nodes

if TYPE_CHECKING:
    from torchdeck.agent.processes.detached_process import DetachedProcess
    from torchdeck.config.schema import RunConfig
    from torchdeck.contract.layout import RunLayout
    from torchdeck.nodes.connector import Connector
    from torchdeck.nodes.ssh.credentials import Asker


Progress = Callable[[str], None]


class Phase(Enum):
    """Phase that takes time, in words that follow `waiting for`."""

    DATA = "looking at the batch plan's data"
    MODEL = "tracing the model"
    DISKS = "measuring the disk of checkpoints"
    TRIAL = "trying torchrun and an all-reduce on the nodes"
    LOGINS = "connecting to its nodes"
    ATTACHING = "asking the run's nodes for their files"
    CONTROLLER = "starting controller"
    PROFILE = "profiling ranks"
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
        """Called with a controller that the front end must reap."""


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


# Logins to the nodes of a run that is there already, asked for before its controller is started.

Logins = Callable[[], Mapping[str, Any]]
"""Gives what the nodes of a run need to be logged in to, as `Credentials.to_json` has it; secret."""


def logins_of(layout: RunLayout, ui: Ui) -> Logins:
    """A function that asks for what a controller of the run needs; nothing for this machine alone."""

    def ask() -> Mapping[str, Any]:
        if not remote_nodes(layout):
            return {}

        with ui.waiting(Phase.LOGINS):
            given = gather_logins(layout, ui.connector(layout.home.root))
        ui.check()
        return given

    return ask


def given_logins(layout: RunLayout, ui: Ui) -> Logins:
    """A function that gives what was asked for so far: it asks nothing, and connects to nothing."""
    if not remote_nodes(layout):
        return dict
    return ui.connector(layout.home.root).credentials.to_json


# Logins that a controller needs for a run's nodes, requested in advance: it cannot ask the user.

LIMIT = 30.0
"""Seconds for one node, excluding the time that a user takes to answer."""
AT_ONCE = 16


def gather_logins(layout: RunLayout, connector: Connector) -> Mapping[str, Any]:
    """Connect to each node of the run once, so that all prompts appear now.

    Unreachable nodes are ignored here: the run's links report them.

    Returns:
        The answers, as returned by `Credentials.to_json`; secret.
    """
    names = remote_nodes(layout)
    if not names:
        return {}
    on_each(names, lambda name: _try(connector, name), "logins", AT_ONCE)
    return connector.credentials.to_json()


def _try(connector: Connector, name: str) -> None:
    with contextlib.suppress(Refusal):
        connector.connect(name, LIMIT).close()
