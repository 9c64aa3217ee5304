"""Runs started as a launch starts them: controller and agent real, torchrun the one in the plan."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from support.agents.bundle import lay_bundle
from support.waiting import wait_for_value, wait_until
from torchdeck.contract.journal import Event, read_journal
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.contract.processes import ProcessIdentity, processes_of_run
from torchdeck.launching.launcher import LaunchRecord, create_run
from torchdeck.runs.follower import read_run
from torchdeck.runs.home import torchdeck_home
from torchdeck.runs.view import RunView


def new_run(plan: LaunchPlan) -> RunLayout:
    """A run directory for `plan` in the test's home; nothing is started."""
    home = torchdeck_home()
    lay_bundle(home)
    return create_run(plan, LaunchRecord("# a test\n"), home)


def controller_events(layout: RunLayout, name: str) -> list[Event]:
    return [event for event in read_journal(layout.journal) if event.name == name]


def controllers(layout: RunLayout) -> list[ProcessIdentity]:
    """Every controller that the journal names, oldest first."""
    found = [
        ProcessIdentity.from_json(event.fields["identity"])
        for event in controller_events(layout, "controller_started")
    ]
    return [identity for identity in found if identity is not None]


def wait_for_state(layout: RunLayout, state: str, seconds: float = 60) -> RunView:
    """The view, once it has this state."""
    what = f"{layout.root.name} to be {state}, it is {read_run(layout).state}"
    return wait_for_value(lambda: _view_if(layout, lambda view: view.state == state), seconds, what)


def wait_until_over(layout: RunLayout, seconds: float = 60) -> RunView:
    return wait_for_value(
        lambda: _view_if(layout, lambda view: view.is_over), seconds, f"{layout.root.name} to be over"
    )


def _view_if(layout: RunLayout, wanted: Callable[[RunView], bool]) -> RunView | None:
    view = read_run(layout)
    return view if wanted(view) else None


@contextmanager
def nothing_left(home: Path) -> Iterator[None]:
    """Afterwards no process of any run of `home` is alive, whatever happened."""
    try:
        yield
    finally:
        for folder in sorted((home / "runs").glob("*")):
            layout = RunLayout(folder)
            wait_until(partial(_all_gone, layout), 20, f"processes of {folder.name} to be gone")


def _all_gone(layout: RunLayout) -> bool:
    return not _killed(layout)


def _killed(layout: RunLayout) -> list[ProcessIdentity]:
    named = list(controllers(layout))
    for event in read_journal(layout.node("localhost").journal):
        for key in ("identity", "holder"):
            identity = ProcessIdentity.from_json(event.fields.get(key))
            if identity is not None:
                named.append(identity)
    alive = [process for process in (*named, *processes_of_run(layout.root.name)) if process.is_alive()]
    for process in alive:
        process.send(signal.SIGKILL)
    return alive
