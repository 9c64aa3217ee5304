"""Starts a run: trust, connect, plan, check, create its directory, start its controller."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from torchdeck.use_cases.ui import Phase, Ui, connector_for

if TYPE_CHECKING:
    from torchdeck.agent.processes.detached_process import DetachedProcess
    from torchdeck.config.loader import LoadedConfig
    from torchdeck.contract.layout import RunLayout
    from torchdeck.contract.plan.launch_plan import LaunchPlan
    from torchdeck.launching.control.pre_connect import PreConnectingController
    from torchdeck.nodes.connector import Connector
    from torchdeck.plan.check import Check


class MissingSecrets(NamedTuple):
    """Secrets of a run without a value."""

    names: tuple[str, ...]
    can_keep: bool
    """Whether this machine has a keyring that could keep them."""


def missing_secrets(names: Iterable[str], home: Path) -> MissingSecrets:
    """Return which of `names` have no value; may take a moment, as the keyring is asked.

    Args:
        names: names of environment variables.
        home: TORCHDECK_HOME.
    """
    from torchdeck.nodes.ssh.keyring_store import Keyring, kept_secrets

    unset = [name for name in names if name not in os.environ]
    found = kept_secrets(home, unset)
    missing = tuple(name for name in unset if name not in found)
    return MissingSecrets(missing, bool(missing) and Keyring(home).is_there)


def keep_secrets(values: Mapping[str, str], home: Path) -> None:
    """Put values into the keyring, from which later starts take them.

    Raises:
        KeyringError: there is no keyring, or it refuses.
    """
    from torchdeck.nodes.ssh.keyring_store import Keyring, secret_name

    Keyring(home).keep_secrets({secret_name(name): value for name, value in values.items()})


@dataclass(frozen=True)
class StartRequest:
    """Parameters of a start."""

    loaded: LoadedConfig
    text: str
    """Run file as written by the user, which is kept with the run."""
    source: str = ""
    """File that contains `text`; empty: none."""
    overrides: tuple[str, ...] = ()
    """Overrides from `--set` and other options."""
    trust: bool = False
    """Trust the code of the run first."""
    home: Path | None = None
    """TORCHDECK_HOME; None: the default one."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Values of [run] secrets that are neither in the environment nor in the keyring."""
    queued: str = ""
    """Start of a queue's entry, which the run records; empty: it does not come from the queue."""


@dataclass(frozen=True)
class Started:
    """Created run whose controller is started."""

    layout: RunLayout
    controller: DetachedProcess
    warnings: tuple[str, ...] = ()
    """Warnings of the plan and of the checks, each once."""


@dataclass(frozen=True)
class Differs:
    """The plan differs from the previewed one; nothing was started."""

    plan: LaunchPlan
    changes: tuple[str, ...]


@dataclass(frozen=True)
class _Checked:
    """Plan that can be started, while its nodes are connected."""

    plan: LaunchPlan
    home: Path
    connector: Connector | None
    """Has the logins entered so far; None: the run is on this machine only."""
    checks: tuple[Check, ...] = ()
    controller: PreConnectingController | None = None


def start(request: StartRequest, ui: Ui) -> Started:
    """Start a run if all checks pass.

    Raises:
        ConfigError: the node inventory is invalid.
        PlanError: no plan can be made on these machines.
        PreflightError: something would stop the run.
        Refusal: it cannot be started from here.
    """
    with _checked(request, ui) as found:
        return _create(request, found, ui)


def start_previewed(request: StartRequest, previewed: LaunchPlan, ui: Ui) -> Started | Differs:
    """Same as `start`, if the plan is what the user has seen."""
    with _checked(request, ui) as found:
        if changes := _changes(previewed, found.plan):
            return Differs(found.plan, changes)
        return _create(request, found, ui)


def start_agreed(request: StartRequest, plan: LaunchPlan, ui: Ui) -> Started:
    """Start the plan of a `Differs`, which was checked and which the user has confirmed. Raises Refusal."""
    from torchdeck.runs.home import torchdeck_home

    home = torchdeck_home(request.home)
    return _create(request, _Checked(plan, home, connector_for(request.loaded.config, ui, home)), ui)


@contextmanager
def _checked(request: StartRequest, ui: Ui) -> Iterator[_Checked]:
    """The plan, made and checked over connections to its nodes that end with the block."""
    from torchdeck.launching.control.pre_connect import pre_connecting_controller
    from torchdeck.runs.home import torchdeck_home

    loaded, home = request.loaded, torchdeck_home(request.home)
    if request.trust:
        from torchdeck.use_cases.trust import trust_run

        trust_run(loaded, home)
    with pre_connecting_controller(loaded.config, home) as controller:
        # imported only now: the controller starts meanwhile
        from torchdeck.launching.facts.node_facts import nodes_in_inventory, pre_connected

        connector = connector_for(loaded.config, ui, home)
        if controller is not None:
            controller.connect([] if connector is None else nodes_in_inventory(loaded.config, connector))
        with pre_connected(loaded.config, connector) as connected:
            # imported only now: nodes log in meanwhile
            from torchdeck.launching.checked_plan import checked_plan

            with ui.waiting(Phase.MODEL) as progress:
                plan, checks = checked_plan(
                    loaded.config, home, loaded.locate, progress, loaded.files, connected
                )
            yield _Checked(plan, home, connector, tuple(checks), controller)


def _changes(previewed: LaunchPlan, plan: LaunchPlan) -> tuple[str, ...]:
    """Return the differences of `plan`; other content of its folders may change, and is copied at the
    start.
    """
    if plan.fingerprint == previewed.fingerprint:
        return ()
    from torchdeck.plan.plan_changes import plan_changes

    return plan_changes(previewed, plan)


def _create(request: StartRequest, found: _Checked, ui: Ui) -> Started:
    from torchdeck.launching.launcher import LaunchRecord, start_run

    plan = found.plan
    with ui.waiting(Phase.STARTING):
        ui.before_start()
        # the controller cannot prompt: the logins entered here are passed to it through a pipe
        logins = None if found.connector is None else found.connector.credentials.to_json()
        record = LaunchRecord(request.text, request.source, request.overrides, request.queued)
        layout, controller = start_run(
            plan, record, found.home, secrets=request.secrets, logins=logins, controller=found.controller
        )
    warned = (str(check) for check in found.checks if check.status == "warning")
    return Started(layout, controller, tuple(dict.fromkeys((*plan.warnings, *warned))))
