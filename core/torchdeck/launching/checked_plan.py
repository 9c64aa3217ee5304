"""Checks before a start: the plan of a config, and what blocks it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from torchdeck.config.chosen_nodes import is_here_alone
from torchdeck.config.problems import Problem
from torchdeck.config.schema import RunConfig
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.launching.facts.fact_sources import FactSources
from torchdeck.launching.facts.model_and_data import OnProgress, profile_finder
from torchdeck.launching.gate import resolved
from torchdeck.launching.preflight import check_model, failures, preflight
from torchdeck.launching.prepare import ClusterFacts, Locate, cluster_facts, plan_from, with_model
from torchdeck.plan.check import Check, PlanError, PreflightError, problem

if TYPE_CHECKING:
    from torchdeck.nodes.connector import Connector


def checked_plan(
    config: RunConfig,
    home: Path,
    locate: Locate | None = None,
    on_progress: OnProgress | None = None,
    files: Sequence[Path] = (),
    connector: Connector | None = None,
) -> tuple[LaunchPlan, list[Check]]:
    """Return the plan of a config on this machine and the results of the checks before the start; none of
    them failed.

    Args:
        config: the requested configuration.
        home: TORCHDECK_HOME.
        locate: file and line of a key, `LoadedConfig.locate`, for the problems.
        on_progress: called with what is being waited for: a trace of a recipe's model that is not known yet.
        files: files of `config`, `LoadedConfig.files`; empty if the user's own code made it.
        connector: connector for nodes; None: no login is requested.

    Raises:
        PlanError: they do not fit each other; if nodes are at fault, its problems include what the checks
            found in addition.
        PreflightError: something would stop the run.
    """
    if is_here_alone(config):  # paths of several nodes may use other links on each
        config = resolved(config)
    disks: dict[str, str] = {}
    # the checks query the nodes again that the survey has queried
    with nullcontext() if connector is None else connector.keeping_probe_sessions() as kept:
        found = cluster_facts(config, on_progress=on_progress, looks=FactSources(home, kept), files=files)
        try:
            plan = plan_from(config, found, locate)
        except PlanError as error:
            if not found.remote.faults:
                raise
            # report all faults of the nodes at once, so that they can be fixed together
            checks = preflight(config, None, found, home, kept)
            raise PlanError(_all_in_the_way(error, checks, found)) from error
        # checks that fail immediately run before those that take seconds
        checks = _passed(preflight(config, plan, found, home, kept, disks))
    found = with_model(config, found, home, on_progress, profile_finder(files))
    plan = plan_from(config, found, locate)
    return plan, [*checks, *_passed(list(check_model(config, plan, found, home, disks)))]


def _all_in_the_way(error: PlanError, checks: list[Check], found: ClusterFacts) -> list[Problem]:
    """Return why there is no plan, together with what the checks found."""
    told = {(fault.node, fault.check) for fault in found.remote.faults}
    added = [check for check in failures(checks) if (check.node, check.name) not in told]
    return [*error.problems, *(problem("", str(replace(check, fix="")), check.fix) for check in added)]


def _passed(checks: list[Check]) -> list[Check]:
    failed = failures(checks)
    if failed:
        raise PreflightError(failed)
    return checks


# The same, but with all results, also of failed checks: for `torchdeck check`.


class AllChecks(NamedTuple):
    """Results of all checks."""

    checks: list[Check]
    misfit: PlanError | None
    """Why no plan can be made."""
    found: ClusterFacts
    """Facts, with the model as far as it was traced."""
    disks: dict[str, str]
    """Nodes that keep checkpoints on one disk; empty: unknown."""


def all_checks(
    config: RunConfig,
    found: ClusterFacts,
    home: Path,
    locate: Locate | None = None,
    on_progress: OnProgress | None = None,
    files: Sequence[Path] = (),
    connector: Connector | None = None,
) -> AllChecks:
    """Run all checks, and return why no plan can be made if so: memory is then not checked.

    A fault of a node is a check of that node alone, and not repeated as a problem of the plan; the list of
    problems may then be empty.

    Args:
        config: the requested configuration.
        found: result of `survey`.
        home: TORCHDECK_HOME.
        locate: file and line of a key, `LoadedConfig.locate`, for the problems.
        on_progress: called with what is being waited for: a trace of a model that is not known yet.
        files: files of `config`, `LoadedConfig.files`; empty if the user's own code made it.
        connector: connector for nodes; None: no login is requested.
    """
    try:
        plan = plan_from(config, found, locate)
        disks: dict[str, str] = {}
        checks = preflight(config, plan, found, home, connector, disks)
        found = with_model(config, found, home, on_progress, profile_finder(files))
        plan = plan_from(config, found, locate)
        checks = [*checks, *check_model(config, plan, found, home, disks)]
        return AllChecks(checks, None, found, disks)
    except PlanError as error:
        checks = preflight(config, None, found, home, connector)
        return AllChecks(checks, PlanError(_untold(error.problems, found, checks)), found, {})


def _untold(problems: Sequence[Problem], found: ClusterFacts, checks: Sequence[Check]) -> list[Problem]:
    """Return the problems that no check of a node reports already, so that each is reported once."""
    failed = {(check.node, check.name) for check in checks if check.status == "failed"}
    told = {fault.what for fault in found.remote.faults if (fault.node, fault.check) in failed}
    return [problem for problem in problems if problem.wrong not in told]
