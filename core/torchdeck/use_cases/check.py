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
    from torchdeck.launching.prepare import ClusterFacts
    from torchdeck.nodes.connector import Connector
    from torchdeck.plan.check import PlanError


@dataclass(frozen=True)
class CheckRequest:
    """Parameters of a check."""

    loaded: LoadedConfig
    trust: bool = False
    """Trust the code of the run first."""
    measure: bool = False
    """Test torchrun on the nodes, which takes seconds; measurements are cached."""
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
    from torchdeck.launching.all_checks import all_checks
    from torchdeck.launching.facts.fact_sources import FactSources
    from torchdeck.launching.prepare import cluster_facts
    from torchdeck.runs.home import HomeError, torchdeck_home, usual_home

    loaded, config = request.loaded, request.loaded.config
    if request.trust:
        from torchdeck.use_cases.plan import trust_run

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
            checks, misfit = all_checks(config, found, home, loaded.locate, progress, loaded.files, kept)
        ui.check()
        if kept is not None and request.measure and misfit is None and found.remote.names:
            checks += _measured(loaded, found, kept, checks, ui, again=request.again)
    return Checked(tuple(checks), misfit if misfit is not None and misfit.problems else None)


def _measured(
    loaded: LoadedConfig,
    found: ClusterFacts,
    connector: Connector,
    checks: list[Check],
    ui: Ui,
    *,
    again: bool,
) -> list[Check]:
    """Run the checks that take seconds: torchrun on the nodes."""
    from torchdeck.launching.preflight.remote.further import check_further
    from torchdeck.launching.prepare import plan_from

    plan = plan_from(loaded.config, found, loaded.locate)
    if plan.world_size < 2:
        return []
    with ui.waiting(Phase.TRIAL) as progress:
        progress("torchrun begins")
        return check_further(plan, found, connector, checks, again=again)
