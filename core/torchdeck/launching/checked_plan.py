"""The last look before a start: the plan of a config, and whether anything stands in its way."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from torchdeck.config.chosen_nodes import is_here_alone
from torchdeck.config.problems import Problem
from torchdeck.config.schema import RunConfig
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.launching.facts.fact_sources import FactSources
from torchdeck.launching.facts.model_and_data import OnProgress, profile_finder
from torchdeck.launching.gate import resolved
from torchdeck.launching.preflight import check_model, failures, preflight
from torchdeck.launching.prepare import ClusterFacts, Locate, cluster_facts, plan_from, with_model
from torchdeck.plan.check import Check, PreflightError
from torchdeck.plan.problems import PlanError, problem

if TYPE_CHECKING:
    from torchdeck.nodes.connector import Connector


def checked_plan(
    config: RunConfig,
    home: Path,
    locate: Locate | None = None,
    on_progress: OnProgress | None = None,
    files: Sequence[Path] = (),
    reach: Connector | None = None,
) -> tuple[LaunchPlan, list[Check]]:
    """The plan of a config on this machine, and what the checks before the start found; none of them failed.

    Args:
        config: what is asked for.
        home: TORCHDECK_HOME.
        locate: file and line of a key, `LoadedConfig.locate`, for the problems.
        on_progress: told what is waited for, which is a trace of a recipe's model that is not known yet.
        files: what `config` was read from, `LoadedConfig.files`; none where the user's own code made it.
        reach: how nodes are connected to; None: nobody is asked for a login.

    Raises:
        PlanError: they do not fit each other; where nodes are at fault, what the
            checks find beside that stands among its problems.
        PreflightError: something would stop the run.
    """
    if is_here_alone(config):  # paths of several nodes may lead through other links on each
        config = resolved(config)
    disks: dict[str, str] = {}
    # the checks ask the nodes again that the survey has asked
    with nullcontext() if reach is None else reach.keeping_probe_sessions() as kept:
        found = cluster_facts(config, on_progress=on_progress, looks=FactSources(home, kept), files=files)
        try:
            plan = plan_from(config, found, locate)
        except PlanError as error:
            if not found.remote.faults:
                raise
            # who mends a node mends all that is wrong with the nodes at once
            checks = preflight(config, None, found, home, kept)
            raise PlanError(_all_in_the_way(error, checks, found)) from error
        # what refuses at once comes before what takes seconds
        checks = _passed(preflight(config, plan, found, home, kept, disks))
    found = with_model(config, found, home, on_progress, profile_finder(files))
    plan = plan_from(config, found, locate)
    return plan, [*checks, *_passed(list(check_model(config, plan, found, home, disks)))]


def _all_in_the_way(error: PlanError, checks: list[Check], found: ClusterFacts) -> list[Problem]:
    """Why there is no plan, and what the checks found beside it."""
    told = {(fault.node, fault.check) for fault in found.remote.faults}
    beside = [check for check in failures(checks) if (check.node, check.name) not in told]
    return [*error.problems, *(problem("", str(replace(check, fix="")), check.fix) for check in beside)]


def _passed(checks: list[Check]) -> list[Check]:
    failed = failures(checks)
    if failed:
        raise PreflightError(failed)
    return checks
