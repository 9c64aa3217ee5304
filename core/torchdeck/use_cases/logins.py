"""Logins to the nodes of a run that is there already, asked for before its controller is started."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from torchdeck.contract.layout import RunLayout
from torchdeck.runs.folders.node_parts import remote_nodes
from torchdeck.use_cases.ui import Phase, Ui

if TYPE_CHECKING:
    from torchdeck.contract.layout import RunLayout
    from torchdeck.nodes.connector import Connector


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


def gather_logins(layout: RunLayout, reach: Connector) -> Mapping[str, Any]:
    """Connect to each node of the run once, so that all prompts appear now.

    Unreachable nodes are ignored here: the run's links report them.

    Returns:
        The answers, as returned by `Credentials.to_json`; secret.
    """
    names = remote_nodes(layout)
    if not names:
        return {}
    with ThreadPoolExecutor(min(AT_ONCE, len(names))) as pool:
        list(pool.map(lambda name: _try(reach, name), names))
    return reach.credentials.to_json()


def _try(reach: Connector, name: str) -> None:
    from torchdeck.config.problems import ConfigError
    from torchdeck.nodes.ssh.errors import SshError, TargetError

    with contextlib.suppress(ConfigError, SshError, TargetError):
        reach.connect(name, LIMIT).close()
