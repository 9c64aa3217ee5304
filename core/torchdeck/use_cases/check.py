"""Checks a run for problems without starting it."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from torchdeck.plan.check import Check, failed
from torchdeck.use_cases.ui import Phase, Ui, connector_for

if TYPE_CHECKING:
    from torchdeck.config.loader import LoadedConfig
    from torchdeck.launching.checked_plan import AllChecks
    from torchdeck.nodes.connector import Connector
    from torchdeck.plan.check import PlanError


@dataclass(frozen=True)
class CheckRequest:
    """Parameters of a check."""

    loaded: LoadedConfig
    trust: bool = False
    """Trust the code of the run first."""
    measure: bool = False
    """Measure disks, GPUs and connections between nodes, which takes seconds; the latter are cached."""
    again: bool = False
    """Measure the nodes even if nothing has changed."""
    home: Path | None = None
    """TORCHDECK_HOME; None: the default one."""


@dataclass(frozen=True)
class Checked:
    """Result of a check."""

    checks: tuple[Check, ...]
    misfit: PlanError | None = None
    """Why no plan can be made; None: one can."""

    @property
    def ok(self) -> bool:
        """Return whether nothing would stop the run."""
        return self.misfit is None and all(check.status != "failed" for check in self.checks)


def check(request: CheckRequest, ui: Ui) -> Checked:
    """Return the results of all checks before a start, including failed ones.

    Raises:
        TrustError: the code of the run cannot be trusted.
        HomeError: the trust list cannot be written.
    """
    from torchdeck.launching.checked_plan import all_checks
    from torchdeck.launching.facts.fact_sources import FactSources
    from torchdeck.launching.prepare import cluster_facts
    from torchdeck.nodes.connector import Connector
    from torchdeck.runs.home import HomeError, torchdeck_home, usual_home

    loaded, config = request.loaded, request.loaded.config
    if request.trust:
        from torchdeck.use_cases.trust import trust_run

        trust_run(loaded, request.home)
    home = request.home or usual_home()
    connector = connector_for(config, ui, home)
    with nullcontext() if connector is None else connector.keeping_probe_sessions() as kept:
        with ui.waiting(Phase.DATA) as progress:
            found = cluster_facts(
                config, on_progress=progress, looks=FactSources(home, kept), files=loaded.files
            )
        try:
            home = torchdeck_home(home)
        except HomeError as error:
            return Checked((failed("home", "localhost", error.finding, error.fix),))
        with ui.waiting(Phase.MODEL) as progress:
            quick = all_checks(config, found, home, loaded.locate, progress, loaded.files, kept)
        ui.check()
        checks, misfit = quick.checks, quick.misfit
        if request.measure and misfit is None:
            checks += _measured(loaded, quick, kept or Connector(home), ui, again=request.again)
    return Checked(tuple(checks), misfit if misfit is not None and misfit.problems else None)


def _measured(
    loaded: LoadedConfig, quick: AllChecks, connector: Connector, ui: Ui, *, again: bool
) -> list[Check]:
    """Run the checks that take seconds: torchrun on the nodes, and the speed of disks."""
    from torchdeck.launching.preflight.remote.disk_speed import check_disk_speed
    from torchdeck.launching.preflight.remote.further import check_further
    from torchdeck.launching.preflight.remote.trial import Waiting
    from torchdeck.launching.prepare import plan_from

    found = quick.found
    plan = plan_from(loaded.config, found, loaded.locate)
    made: list[Check] = []
    if not any(check.status == "failed" for check in quick.checks):
        with ui.waiting(Phase.DISKS) as progress:
            progress("a file is written and read")
            made += check_disk_speed(loaded.config, plan, found, connector, quick.disks)
        ui.check()
    gpus = any(len(node.devices) > 1 for node in plan.nodes)
    if plan.world_size < 2 or not (found.remote.names or gpus):
        return made
    with ui.waiting(Phase.TRIAL) as progress:
        progress("torchrun begins")
        waiting = Waiting(progress, ui.check)
        return made + check_further(plan, found, connector, quick.checks, again=again, waiting=waiting)
