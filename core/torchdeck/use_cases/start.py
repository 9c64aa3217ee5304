"""Start a run: trust, connect, plan, check, make its directory, start its controller."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from torchdeck.use_cases.ui import Phase, Ui, connector_for

if TYPE_CHECKING:
    from torchdeck.agent.processes.detached_process import DetachedProcess
    from torchdeck.config.loader import LoadedConfig
    from torchdeck.contract.layout import RunLayout
    from torchdeck.contract.plan.launch_plan import LaunchPlan
    from torchdeck.launching.control.pre_connect import PreConnectingController
    from torchdeck.nodes.connector import Connector
    from torchdeck.plan.check import Check


@dataclass(frozen=True)
class StartRequest:
    """What is to be started."""

    loaded: LoadedConfig
    text: str
    """The run file as the user wrote it, which is kept with the run."""
    source: str = ""
    """The file that `text` is in; empty: none."""
    overrides: tuple[str, ...] = ()
    """What `--set` and other options said on top of it."""
    trust: bool = False
    """Trust what the run executes, first."""
    home: Path | None = None
    """TORCHDECK_HOME; None: the usual one."""


@dataclass(frozen=True)
class Started:
    """The run is there, and its controller is started."""

    layout: RunLayout
    controller: DetachedProcess
    warnings: tuple[str, ...] = ()
    """Of the plan and of the checks, each once."""


@dataclass(frozen=True)
class Differs:
    """Another plan is made now than was previewed; nothing was started."""

    plan: LaunchPlan
    changes: tuple[str, ...]


@dataclass(frozen=True)
class _Checked:
    """A plan that can be started, while its nodes are connected to."""

    plan: LaunchPlan
    home: Path
    connector: Connector | None
    """Has the logins that were asked for; None: the run is on this machine alone."""
    checks: tuple[Check, ...] = ()
    controller: PreConnectingController | None = None


def start(request: StartRequest, ui: Ui) -> Started:
    """Start a run if every check passes.

    Raises:
        ConfigError: the node inventory is wrong.
        PlanError: no plan can be made on these machines.
        PreflightError: something would stop the run.
        Refusal: it cannot be started from here.
    """
    with _checked(request, ui) as found:
        return _create(request, found, ui)


def start_previewed(request: StartRequest, previewed: LaunchPlan, ui: Ui) -> Started | Differs:
    """As `start`, if what would be started is what the user has seen."""
    with _checked(request, ui) as found:
        if changes := _changes(previewed, found.plan):
            return Differs(found.plan, changes)
        return _create(request, found, ui)


def start_agreed(request: StartRequest, plan: LaunchPlan, ui: Ui) -> Started:
    """Start the plan of a `Differs`, which was checked and which the user has agreed to. Raises Refusal."""
    from torchdeck.runs.home import torchdeck_home

    home = torchdeck_home(request.home)
    return _create(request, _Checked(plan, home, connector_for(request.loaded.config, ui, home)), ui)


@contextmanager
def _checked(request: StartRequest, ui: Ui) -> Iterator[_Checked]:
    """The plan, made and checked over connections to its nodes that end with the block."""
    from torchdeck.launching.chosen_nodes import nodes_in_inventory, pre_connected
    from torchdeck.launching.control.pre_connect import pre_connecting_controller
    from torchdeck.runs.home import torchdeck_home

    loaded, home = request.loaded, torchdeck_home(request.home)
    if request.trust:
        from torchdeck.use_cases.trust import trust_run

        trust_run(loaded, home)
    connector = connector_for(loaded.config, ui, home)
    nodes = [] if connector is None else nodes_in_inventory(loaded.config, connector)
    with (
        pre_connecting_controller(loaded.config, home, nodes) as controller,
        pre_connected(loaded.config, connector) as connected,
    ):
        # imported only now: nodes log in meanwhile
        from torchdeck.launching.checked_plan import checked_plan

        with ui.waiting(Phase.MODEL) as progress:
            plan, checks = checked_plan(loaded.config, home, loaded.locate, progress, loaded.files, connected)
        yield _Checked(plan, home, connector, tuple(checks), controller)


def _changes(previewed: LaunchPlan, plan: LaunchPlan) -> tuple[str, ...]:
    """In what `plan` differs; what else lies in its folders may change, and is copied as it is then."""
    if plan.fingerprint == previewed.fingerprint:
        return ()
    from torchdeck.plan.plan_changes import plan_changes

    return plan_changes(previewed, plan)


def _create(request: StartRequest, found: _Checked, ui: Ui) -> Started:
    from torchdeck.launching.launcher import LaunchRecord, start_run

    plan = found.plan
    with ui.waiting(Phase.STARTING):
        ui.before_start()
        # the controller has no one to ask: what was asked for here goes to it through a pipe
        logins = None if found.connector is None else found.connector.credentials.to_json()
        intent = LaunchRecord(request.text, request.source, request.overrides)
        layout, controller = start_run(plan, intent, found.home, logins=logins, controller=found.controller)
    warned = (str(check) for check in found.checks if check.status == "warning")
    return Started(layout, controller, tuple(dict.fromkeys((*plan.warnings, *warned))))
