"""Follow a run again: one of this home, or one that another machine has started."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from torchdeck.contract.refusal import Refusal
from torchdeck.launching.taking_over import ensure_controller, take_up, wants_controller
from torchdeck.runs.follower import RunFollower
from torchdeck.use_cases.ui import Logins, Phase, Ui, logins_of

if TYPE_CHECKING:
    from torchdeck.agent.processes.detached_process import DetachedProcess
    from torchdeck.contract.layout import RunLayout
    from torchdeck.runs.view import RunView

__all__ = ["Attached", "attach", "attach_elsewhere", "ensure_controller", "fence", "wants_controller"]

FOLLOWED_LIMIT = 15.0
"""Seconds for a controller to appear; a busy machine needs some to start it."""
_POLL = 0.1


@dataclass(frozen=True)
class Attached:
    """A run of another machine that is here now."""

    layout: RunLayout
    controller: DetachedProcess | None
    """None: it is over, or has one."""
    unreached: Mapping[str, str]
    """Node → why none of its data is here yet."""


def attach(layout: RunLayout, ui: Ui, *, until_followed: bool = False) -> DetachedProcess | None:
    """Start a controller with the logins if the run continues and is not followed, or not all of it.

    Args:
        layout: of the run.
        ui: the front end.
        until_followed: return once the controller has the run.

    Raises:
        Refusal: it cannot be started, or ended at once; it says the controller's last words.
    """
    return _follow(layout, logins_of(layout, ui), ui, until_followed=until_followed)


def fence(layout: RunLayout, view: RunView, ui: Ui) -> None:
    """Start a controller for a lost run, to end its possible processes on unreachable nodes.

    Nodes that were removed from the node inventory are gone for good. Failures are noted.
    """
    from torchdeck.nodes.inventory.file import inventory_path, read_inventory

    try:
        if read_inventory(inventory_path(layout.home.root)).nodes.keys() >= set(view.unfenced):
            ensure_controller(layout)
    except Refusal as error:
        ui.note(f"run {view.id} has no controller: {error}")


def attach_elsewhere(node: str, asked: str, home: Path, ui: Ui, *, until_followed: bool = False) -> Attached:
    """Make the directory of a run that another machine has started, and follow the run from here.

    Args:
        node: any node of the run, in the node inventory.
        asked: the run's id, the beginning of it, its name, or `latest`.
        home: TORCHDECK_HOME.
        ui: the front end.
        until_followed: as of `attach`.

    Raises:
        Refusal: there is no such run there, or this machine cannot reach its leader.
    """
    from torchdeck.launching.reattach import reattach

    connector = ui.connector(home)
    try:
        with ui.waiting(Phase.ATTACHING) as progress:
            layout, unreached = reattach(connector, node, asked, progress, ui.check)
    except Refusal:
        raise
    except OSError as error:
        raise Refusal("the run cannot be attached to", error) from error
    for why in unreached.values():
        ui.note(f"not here yet: {why}")
    # the connector has asked for what is needed
    controller = _follow(layout, connector.credentials.to_json, ui, until_followed=until_followed)
    return Attached(layout, controller, unreached)


def _follow(layout: RunLayout, logins: Logins, ui: Ui, *, until_followed: bool) -> DetachedProcess | None:
    controller = take_up(layout, logins)
    if controller is None:
        return None
    try:
        if until_followed:
            with ui.waiting(Phase.CONTROLLER):
                _wait_followed(layout, controller, ui)
    finally:
        ui.adopt(controller)
    return controller


def _wait_followed(layout: RunLayout, controller: DetachedProcess, ui: Ui) -> None:
    """Until the controller has the run, or `FOLLOWED_LIMIT` has passed."""
    follower = RunFollower(layout)
    until = time.monotonic() + FOLLOWED_LIMIT
    while time.monotonic() < until:
        ui.check()
        code = controller.exit_code()
        if code not in (None, 0):
            raise Refusal(f"the run is not followed: {_last_words(layout)}")
        found = follower.refresh()
        if code == 0 or found.is_over or follower.controller_pid == controller.pid:
            return
        time.sleep(_POLL)


def _last_words(layout: RunLayout) -> str:
    lines: list[str] = []
    with contextlib.suppress(OSError):
        lines = layout.controller_log.read_text("utf-8", "replace").split("\n")
    said = [line.removeprefix("torchdeck: ") for line in lines if line.strip()]
    return said[-1] if said else "its controller ended without output"
