"""Logins to the nodes of a run that is there already, asked for before its controller is started."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from torchdeck.runs.folders.node_parts import remote_nodes
from torchdeck.use_cases.ui import Phase, Ui

if TYPE_CHECKING:
    from torchdeck.contract.layout import RunLayout

Logins = Callable[[], Mapping[str, Any]]
"""Gives what the nodes of a run need to be logged in to, as `Credentials.to_json` has it; secret."""


def logins_of(layout: RunLayout, ui: Ui) -> Logins:
    """A function that asks for what a controller of the run needs; nothing for this machine alone."""

    def ask() -> Mapping[str, Any]:
        if not remote_nodes(layout):
            return {}
        from torchdeck.launching.node_logins import gather_logins

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
