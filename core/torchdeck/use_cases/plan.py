"""Plans a run without starting it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from torchdeck.use_cases.ui import Phase, Ui, connector_for

if TYPE_CHECKING:
    from torchdeck.config.loader import LoadedConfig
    from torchdeck.contract.inventory import Inventory
    from torchdeck.contract.plan.launch_plan import LaunchPlan
    from torchdeck.launching.prepare import ClusterFacts
    from torchdeck.plan.known import Known


@dataclass(frozen=True)
class PlanRequest:
    """Parameters of a plan."""

    loaded: LoadedConfig
    trust: bool = False
    """Trust the code of the run first."""
    trace: bool = True
    """Trace the model of a recipe if it is not known yet."""


@dataclass(frozen=True)
class Planned:
    """Plan, and the data of its preview."""

    plan: LaunchPlan
    inventory: Inventory
    """Inventory of the probed machines."""
    known: Known
    """Facts about model and data."""


def plan(request: PlanRequest, ui: Ui) -> Planned:
    """Return the plan of a run. Untrusted code is noted and not executed.

    Raises:
        PlanError: no plan can be made on these machines.
        HomeError, TrustError: the code of the run cannot be trusted.
    """
    from torchdeck.launching.facts.fact_sources import FactSources
    from torchdeck.launching.prepare import cluster_facts, plan_from
    from torchdeck.runs.home import usual_home
    from torchdeck.use_cases.trust import trust_run

    loaded = request.loaded
    if request.trust:
        trust_run(loaded)
    home = usual_home()
    with ui.waiting(Phase.DATA) as progress:
        looks = FactSources(home, connector_for(loaded.config, ui, home))
        found = cluster_facts(loaded.config, on_progress=progress, looks=looks, files=loaded.files)
    for held in found.held:
        ui.note(str(held))
    planned = plan_from(loaded.config, found, loaded.locate)
    if request.trace:
        found = _with_model(loaded, found, ui)
        planned = plan_from(loaded.config, found, loaded.locate)
    return Planned(planned, found.inventory, found.known)


def _with_model(loaded: LoadedConfig, found: ClusterFacts, ui: Ui) -> ClusterFacts:
    from torchdeck.launching.facts.model_and_data import profile_finder
    from torchdeck.launching.prepare import with_model
    from torchdeck.runs.home import HomeError, torchdeck_home

    home: Path
    try:
        home = torchdeck_home()
    except HomeError as error:
        known = replace(found.known, failure=f"memory is not predicted: {error}")
        return replace(found, known=known)
    with ui.waiting(Phase.MODEL) as progress:
        return with_model(loaded.config, found, home, progress, profile_finder(loaded.files))
