"""Lost runs keep a controller until all that may still live of them has ended, whoever views them."""

from __future__ import annotations

from torchdeck.cli.terminal_ui import TerminalUi
from torchdeck.contract.layout import RunLayout
from torchdeck.runs.view import RunView


def keep_fencing(layout: RunLayout, view: RunView) -> None:
    """Start a controller for a lost run with nodes that have not answered, if it has none."""
    if not view.unfenced or not view.is_over or view.controller_alive:
        return
    from torchdeck.use_cases.attach import fence  # most runs need none of it

    fence(layout, view, TerminalUi())
